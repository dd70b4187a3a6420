"""One engine in a container, from its image to its removal."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lemonpod.contract.vocabulary import ProbeType
from lemonpod.drivers.container_estate import Survivor
from lemonpod.drivers.container_exit import exit_status
from lemonpod.drivers.container_meter import Meter
from lemonpod.drivers.container_processes import (
    cannot_be_reached,
    check_owner,
    listening_places,
    publishing_hint,
    usage_of,
)
from lemonpod.drivers.container_run import ContainerRun
from lemonpod.drivers.container_start import fetch_image, free_name
from lemonpod.drivers.container_stop import Patience, end, run_stop
from lemonpod.drivers.container_watch import Watch
from lemonpod.drivers.labels import labels_of
from lemonpod.drivers.peer import wait_port_free
from lemonpod.drivers.runtime import ContainerInfo, ContainerRuntime, Usage
from lemonpod.drivers.runtimes import Link, Place, Runtimes
from lemonpod.drivers.threads import Threads
from lemonpod.engine.api import EngineState, EngineStats, EngineStatus, ExitStatus, LogLine, Report
from lemonpod.engine.failure import LOG_TAIL, exited_error
from lemonpod.engine.journal import Journal
from lemonpod.engine.probe import ask
from lemonpod.engine.settings import EngineSettings
from lemonpod.engine.tasks import finish
from lemonpod.errors import EngineError, NameConflictError, RuntimeUnavailableError, SpawnError
from lemonpod.launch.environment import engine_environment
from lemonpod.launch.plan import ContainerLaunch, LaunchPlan

SURVIVAL: Final = 0.25
"""A `process` probe is content with a container that ran this long."""
NOTABLE_SILENCE: Final = 0.4
"""A probe that is given up after less says nothing: a healthy engine may take as long."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """What the engines of one driver share."""

    runtimes: Runtimes
    run: ContainerRun
    threads: Threads
    environ: Mapping[str, str]
    settings: EngineSettings
    journal: Journal
    dead: Callable[[], frozenset[str]]
    """The runs whose containers are up for adoption."""


class ContainerEngine:
    """A container that a plan describes, or one that an earlier server left, taken over."""

    def __init__(
        self,
        plan: LaunchPlan,
        launch: ContainerLaunch,
        number: int,
        bench: Workbench,
        survivor: Survivor | None = None,
    ) -> None:
        self._plan = plan
        self._launch = launch
        self._spec = launch.container
        self._number = number
        self._bench = bench
        self._survivor = survivor
        self._link = survivor.link if survivor else None
        self._container = survivor.container if survivor else None
        self._log = bench.journal.buffer(plan.model)
        self._started = False
        self.over = False
        """Nothing of it is left."""
        self._info: ContainerInfo | None = None
        """As it was just after its start."""
        self._since = 0.0
        self._watch: Watch | None = None
        self._is_owner = False
        """The port that answered was found to be the container's."""
        self._answer = "it was not asked yet"
        self._patience = Patience()
        self._stopping: asyncio.Task[ExitStatus] | None = None
        self._meter = Meter(self._usage)

    @property
    def plan(self) -> LaunchPlan:
        return self._plan

    @property
    def trouble(self) -> str | None:
        return self._watch.trouble if self._watch is not None else None

    async def prepare(self, report: Report) -> None:
        if self._survivor is None:
            link = await self._find()
            link.learn()
            await fetch_image(link, self._spec, report, timeout=self._bench.settings.pull_timeout)

    async def start(self) -> EngineStatus:
        if self._started:
            raise RuntimeError("an engine starts once")
        self._started = True
        try:
            await finish(self._start())
        except asyncio.CancelledError:
            await finish(self.stop(grace=0.0))
            raise
        return self._status(EngineState.RUNNING, self._info, None)

    async def _start(self) -> None:
        link = await self._find()
        if self._survivor is not None:
            self._info = await self._take_over(link, self._survivor)
        else:
            await self._bench.run.sweep(link)
            try:
                self._info = await link.call(lambda runtime: self._make(runtime, link.place))
            except RuntimeUnavailableError:
                self._lose(link)
                raise
        self._since = time.monotonic()
        self._look(link, self._info.id)

    def _make(self, runtime: ContainerRuntime, place: Place) -> ContainerInfo:
        """Make and start it; on failure nothing is left behind, unless the runtime is gone. Blocks."""
        run, number, spec = self._bench.run, self._number, self._spec
        owner = run.record(number, place, None)
        marks = labels_of(self._plan, owner)
        container = None
        try:
            try:
                container = runtime.create(spec, marks)
            except NameConflictError:
                dead = self._bench.dead()
                free_name(runtime, spec, owner.instance, lambda one: run.holds(one.id, one.labels, dead=dead))
                container = runtime.create(spec, marks)
            self._container = container
            run.record(number, place, container)
            runtime.start(container)
            if info := runtime.inspect(container):
                return info
            raise SpawnError(f"the container of {self._plan.model} was removed as soon as it had started")
        except RuntimeUnavailableError:
            raise
        except BaseException:
            if container is not None:
                runtime.remove(container)
            self._container = None
            run.forget(number)
            raise

    async def _take_over(self, link: Link, survivor: Survivor) -> ContainerInfo:
        def look(runtime: ContainerRuntime) -> ContainerInfo | None:
            self._bench.run.record(self._number, link.place, survivor.container)
            return runtime.inspect(survivor.container)

        info = await link.call(look)
        if info is None or not info.running:
            raise SpawnError(f"container {survivor.name} has ended before it could be taken over")
        return info

    async def _find(self) -> Link:
        if self._link is None:
            self._link = await self._bench.runtimes.find(Place.of(self._launch))
        return self._link

    def _look(self, link: Link, container: str) -> Watch:
        name = self._spec.name or container[:12]
        self._watch = Watch(link, container, name, self._log, restarts=self._may_restart)
        return self._watch

    @property
    def _may_restart(self) -> bool:
        """The runtime starts it again when it ends."""
        restart = self._spec.restart
        return restart is not None and restart.policy not in ("", "no")

    async def probe(self) -> bool:
        watch = self._watch
        if watch is None:
            return False
        if watch.exited.done():
            raise exited_error(self._plan, watch.exited.result(), self.log_tail(LOG_TAIL))
        if self._plan.probe.type is ProbeType.PROCESS:
            return time.monotonic() - self._since >= SURVIVAL
        begun = time.monotonic()
        try:
            answer = await ask(self._plan.endpoint, self._plan.probe)
        except asyncio.CancelledError:
            if (waited := time.monotonic() - begun) >= NOTABLE_SILENCE:
                self._answer = f"{self._plan.endpoint.url} did not answer within {waited:.1f} s"
            raise
        # Asked of the runtime once: a port does not change hands while its container runs.
        if answer is None and self._plan.peer_checked and not self._is_owner:
            answer = await self._check_owner()
            self._is_owner = answer is None
        if answer is not None:
            self._answer = answer
        return answer is None

    async def _check_owner(self) -> str | None:
        # What its start was told holds, unless the runtime may have started it again.
        info = self._info
        try:
            if self._may_restart:
                info = await self._now()
            if info is None or not info.running:
                return "the container does not run"
            local = info.host_network and await self._is_local()
        except RuntimeUnavailableError as error:
            return str(error)
        return await self._bench.threads.run(lambda: check_owner(self._plan, self._spec, info, local=local))

    async def _is_local(self) -> bool:
        """Whether its processes are ones of this machine."""
        link = await self._find()
        return (await link.info()).local

    async def diagnose(self) -> str:
        try:
            info, local = await self._now(), await self._is_local()
        except RuntimeUnavailableError:
            return self._answer
        if info is None or not info.running:
            return self._answer
        if cannot_be_reached(self._spec, info, self._plan.endpoint):
            return (
                f"{self._answer}; the container publishes no port {self._plan.endpoint.port}: "
                f"{publishing_hint(self._plan.endpoint)}"
            )
        found = await self._bench.threads.run(lambda: listening_places(info)) if local else None
        return f"{self._answer}; the engine listens on {found}" if found else self._answer

    async def _now(self) -> ContainerInfo | None:
        link, container = await self._find(), self._container
        return await link.call(lambda runtime: runtime.inspect(container)) if container else None

    async def inspect(self) -> EngineStatus:
        if self._watch is None:
            return EngineStatus(state=EngineState.CREATED)
        if self.over:
            return self._status(EngineState.EXITED, self._info, self._watch.exited.result())
        info = await self._now()
        if info is None:
            return self._status(EngineState.MISSING, self._info, None)
        if info.running:
            return self._status(EngineState.RUNNING, info, None)
        return self._status(EngineState.EXITED, info, exit_status(info, wanted=self._watch.wanted))

    def _status(
        self, state: EngineState, info: ContainerInfo | None, status: ExitStatus | None
    ) -> EngineStatus:
        return EngineStatus(
            state=state,
            pid=info.pid if info else None,
            started_at=info.started_at if info else None,
            exit=status,
            container=info.name if info else None,
        )

    async def stats(self) -> EngineStats:
        if self._watch is None or self._watch.exited.done():
            return EngineStats()
        return await self._meter.read()

    async def _usage(self) -> Usage:
        """As the runtime counts; without a cgroup, which a rootless one may lack, as its processes do."""
        link, container, info = await self._find(), self._container or "", self._info
        try:
            usage = await link.call(lambda runtime: runtime.usage(container))
            if usage.memory_bytes is not None:
                return usage
        except RuntimeUnavailableError:
            raise
        except EngineError as error:
            log.debug("the runtime cannot count what %s uses: %s", container[:12], error)
        if info is None or not await self._is_local():
            return Usage(cpu_seconds=None, memory_bytes=None, processes=None)
        return await self._bench.threads.run(lambda: usage_of(info))

    def logs(self, *, tail: int | None = None, follow: bool = False) -> AsyncGenerator[LogLine, None]:
        return self._log.read(tail=tail, follow=follow)

    def log_tail(self, count: int) -> tuple[str, ...]:
        return self._log.tail(count)

    async def wait(self) -> ExitStatus:
        if self._watch is None:
            raise RuntimeError("the engine was not started")
        return await asyncio.shield(self._watch.exited)

    async def stop(self, *, grace: float) -> ExitStatus:
        link, container = self._link, self._container
        if link is None or container is None:
            self._log.close()
            self.over = True
            return ExitStatus(wanted=True)
        watch = self._watch or self._look(link, container)
        watch.wanted = True
        self._patience.limit(grace)
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._end(link, container, watch))
            self._stopping.add_done_callback(self._after_end)
        return await asyncio.shield(self._stopping)

    def _after_end(self, stopping: asyncio.Task[ExitStatus]) -> None:
        """A stop that failed may be tried again."""
        if stopping.cancelled() or stopping.exception() is not None:
            self._stopping = None

    async def _end(self, link: Link, container: str, watch: Watch) -> ExitStatus:
        try:
            if not watch.exited.done() and not self._patience.at_once.is_set():
                await self._run_stop(link, container)
            if not watch.exited.done() and not await end(link, container, watch, self._patience):
                raise self._unending(container, "it does not end by KILL")
            status = watch.exited.result()
            if await link.call(lambda runtime: _remove(runtime, container)):
                raise self._unending(container, "it is still there after its removal")
        except RuntimeUnavailableError as error:
            self._lose(link)
            raise self._unending(container, error.message) from error
        await self._meter.aclose()
        await self._bench.threads.run(lambda: self._bench.run.forget(self._number))
        self._log.close()
        self.over = True
        await wait_port_free(self._plan, started=(self._info and self._info.started_at) or time.time())
        return status

    async def _run_stop(self, link: Link, container: str) -> None:
        bench = self._bench
        await run_stop(
            self._plan,
            link,
            container,
            self._patience,
            pid=self._info.pid if self._info else None,
            env=engine_environment(
                bench.environ,
                self._plan.env,
                marker=f"{bench.run.id}/{self._number}/stop",
                programs=os.path.dirname(sys.executable),
            ),
            timeout=bench.settings.stop_command_timeout,
            emit=self._log.extend,
        )

    def _unending(self, container: str, why: str) -> EngineError:
        name = self._spec.name or container[:12]
        return EngineError(
            f"the container {name} of {self._plan.model} cannot be ended: {why}",
            hint="lemonpod removes it when its runtime answers again",
        )

    def _lose(self, link: Link) -> None:
        self._bench.run.lose(self._number, link, self._container)

    async def aclose(self) -> None:
        """Look away from a container that could not be ended."""
        await self._meter.aclose()
        if self._watch is not None:
            await self._watch.aclose()


def _remove(runtime: ContainerRuntime, container: str) -> bool:
    """Remove it; whether it is still there."""
    runtime.remove(container)
    return runtime.inspect(container) is not None
