"""Engines that are native processes: started in a session of their own, and ended with all they started."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from lemonpod.contract.vocabulary import ProbeType
from lemonpod.drivers import tree
from lemonpod.drivers.child import Child
from lemonpod.drivers.peer import check_peer, wait_port_free
from lemonpod.drivers.reclaim import reclaim
from lemonpod.drivers.spawn import spawn
from lemonpod.drivers.state import EngineRecord, RunFile
from lemonpod.drivers.stop_command import run_stop_command, stop_argv
from lemonpod.engine.api import EngineState, EngineStats, EngineStatus, ExitStatus, LogLine, Report
from lemonpod.engine.failure import LOG_TAIL, exited_error
from lemonpod.engine.journal import Journal
from lemonpod.engine.logbuf import LogBuffer
from lemonpod.engine.probe import ask
from lemonpod.engine.settings import EngineSettings
from lemonpod.engine.tasks import finish
from lemonpod.errors import EngineError, SpawnError
from lemonpod.launch.environment import MARKER, engine_environment
from lemonpod.launch.plan import LaunchPlan, ProcessSpec, StopCommand

SURVIVAL: Final = 0.25
"""A `process` probe is content with an engine that lived this long: a typo in its flags ends one at once."""
NOTABLE_SILENCE: Final = 0.4
"""A probe that is given up after less says nothing: a healthy engine may take as long."""


class ProcessDriver:
    """Runs engines as child processes; `state_dir` holds what a later run needs to clear up after a crash."""

    name: Final = "process"

    def __init__(
        self,
        state_dir: Path,
        environ: Mapping[str, str],
        settings: EngineSettings,
        *,
        journal: Journal | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._environ = environ
        self._settings = settings
        self._journal = journal or Journal()
        self._run = RunFile(state_dir)
        self._numbers = itertools.count(1)

    @property
    def run(self) -> str:
        """The id of this server run: the first half of every marker."""
        return self._run.id

    def accepts(self, plan: LaunchPlan) -> bool:
        return isinstance(plan.spec, ProcessSpec)

    def create(self, plan: LaunchPlan) -> ProcessEngine:
        number = next(self._numbers)
        environment = engine_environment(
            self._environ,
            plan.env,
            marker=f"{self._run.id}/{number}",
            programs=os.path.dirname(sys.executable),
        )
        log = self._journal.buffer(plan.model)
        return ProcessEngine(plan, number, self._run, environment, self._settings, log)

    async def reclaim(self, *, at_once: asyncio.Event | None = None) -> Sequence[str]:
        """As every driver's; once `at_once` is set without stop commands and without grace."""
        return await reclaim(self._state_dir, self._environ, self._settings, at_once or asyncio.Event())

    async def aclose(self) -> None:
        await asyncio.to_thread(self._run.close)


class ProcessEngine:
    """One child process and its tree."""

    def __init__(
        self,
        plan: LaunchPlan,
        number: int,
        run: RunFile,
        environment: Mapping[str, str],
        settings: EngineSettings,
        log: LogBuffer,
    ) -> None:
        self._plan = plan
        self._number = number
        self._run = run
        self._environment = environment
        self._settings = settings
        self._log = log
        self._child: Child | None = None
        self._record: EngineRecord | None = None
        self._started_at: float | None = None
        self._answer = "it was not asked yet"
        self._grace = math.inf
        self._at_once = asyncio.Event()
        self._stopping: asyncio.Task[ExitStatus] | None = None
        self._cpu: tuple[float, float] | None = None

    @property
    def plan(self) -> LaunchPlan:
        return self._plan

    @property
    def trouble(self) -> None:
        """The operating system always answers."""

    async def prepare(self, report: Report) -> None:
        """A process needs nothing but its program."""

    async def start(self) -> EngineStatus:
        if self._record is not None:
            raise RuntimeError("an engine starts once")
        try:
            await finish(self._start())
        except asyncio.CancelledError:
            await finish(self.stop(grace=0.0))
            raise
        return await self.inspect()

    async def _start(self) -> None:
        process, self._record = await asyncio.to_thread(self._spawn)
        self._started_at = time.time()
        try:
            self._child = Child(process, emit=self._log.extend, left_behind=self._left_behind)
        except BaseException:  # no thread or no file descriptor left to watch it with
            _give_up(process)
            self._run.remove(self._number)
            raise

    def _spawn(self) -> tuple[subprocess.Popen[bytes], EngineRecord]:
        """Start and record the process: none runs without a record. Blocks."""
        spec, stop = self._plan.spec, self._plan.stop
        try:
            self._run.open()
        except OSError as error:
            raise self._unrecorded(error) from error
        process = spawn(
            spec.argv,
            env=self._environment,
            cwd=spec.cwd,
            held=spec.held if isinstance(spec, ProcessSpec) else None,
        )
        record = EngineRecord(
            number=self._number,
            model=self._plan.model,
            pid=process.pid,
            create_time=tree.created(process.pid) or time.time(),
            port=self._plan.endpoint.port,
            stop=stop_argv(stop, process.pid) if isinstance(stop, StopCommand) else None,
            stop_names_pid=isinstance(stop, StopCommand) and stop.names_pid,
        )
        try:
            self._run.add(record)
        except OSError as error:
            _give_up(process)
            raise self._unrecorded(error) from error
        return process, record

    def _unrecorded(self, error: OSError) -> SpawnError:
        return SpawnError(
            f"cannot start {self._plan.spec.argv[0]}: no record of it can be written: {error}",
            hint="the cache folder must be writable",
        )

    async def probe(self) -> bool:
        if self._child is None:
            return False
        if self._child.exited.done():
            raise exited_error(self._plan, self._child.exited.result(), self.log_tail(LOG_TAIL))
        if self._plan.probe.type is ProbeType.PROCESS:
            return time.monotonic() - self._child.since >= SURVIVAL
        begun = time.monotonic()
        try:
            answer = await ask(self._plan.endpoint, self._plan.probe)
        except asyncio.CancelledError:
            # Whoever asked gave up first: what an earlier probe found is not why.
            if (waited := time.monotonic() - begun) >= NOTABLE_SILENCE:
                self._answer = f"{self._plan.endpoint.url} did not answer within {waited:.1f} s"
            raise
        if answer is None and self._plan.peer_checked:
            answer = await asyncio.to_thread(lambda: check_peer(self._plan, self._members()))
        if answer is not None:
            self._answer = answer
        return answer is None

    async def diagnose(self) -> str:
        try:
            found = await asyncio.to_thread(lambda: tree.listeners_of(self._members()))
        except psutil.AccessDenied:
            return self._answer
        places = ", ".join(sorted({str(listener) for listener in found})) or "no port"
        return f"{self._answer}; the engine listens on {places}"

    async def inspect(self) -> EngineStatus:
        if self._child is None:
            return EngineStatus(state=EngineState.CREATED)
        if self._child.exited.done():
            state, status = EngineState.EXITED, self._child.exited.result()
        elif tree.created(self._child.pid) is None:
            state, status = EngineState.MISSING, None
        else:
            state, status = EngineState.RUNNING, None
        return EngineStatus(state=state, pid=self._child.pid, started_at=self._started_at, exit=status)

    async def stats(self) -> EngineStats:
        if self._child is None or self._child.exited.done():
            return EngineStats()
        seconds, resident, count = await asyncio.to_thread(lambda: tree.usage(self._members()))
        before, now = self._cpu, time.monotonic()
        self._cpu = (now, seconds)
        percent = None
        if before is not None and now > before[0]:
            percent = max(0.0, 100.0 * (seconds - before[1]) / (now - before[0]))
        return EngineStats(cpu_percent=percent, memory_bytes=resident, processes=count)

    def logs(self, *, tail: int | None = None, follow: bool = False) -> AsyncGenerator[LogLine, None]:
        return self._log.read(tail=tail, follow=follow)

    def log_tail(self, count: int) -> tuple[str, ...]:
        return self._log.tail(count)

    async def wait(self) -> ExitStatus:
        if self._child is None:
            raise RuntimeError("the engine was not started")
        return await asyncio.shield(self._child.exited)

    async def stop(self, *, grace: float) -> ExitStatus:
        if self._child is None or self._record is None:
            self._log.close()
            return ExitStatus(wanted=True)
        self._child.wanted = True
        self._grace = min(self._grace, grace)
        if self._grace <= 0:
            self._at_once.set()
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._end(self._child, self._record))
            self._stopping.add_done_callback(self._after_end)
        return await asyncio.shield(self._stopping)

    def _after_end(self, stopping: asyncio.Task[ExitStatus]) -> None:
        """A stop that failed may be tried again."""
        if stopping.cancelled() or stopping.exception() is not None:
            self._stopping = None

    async def _end(self, child: Child, record: EngineRecord) -> ExitStatus:
        # An unreaped process keeps its pid: the stop command cannot hit a stranger. One that does not name it
        # may be for what outlives the process, as a container does.
        has_ended = child.exited.done()
        if record.stop and not (has_ended and record.stop_names_pid) and not self._at_once.is_set():
            await run_stop_command(
                record.stop,
                env={**self._environment, MARKER: f"{self._environment[MARKER]}/stop"},
                cwd=self._plan.spec.cwd,
                timeout=self._settings.stop_command_timeout,
                at_once=self._at_once,
                emit=self._log.extend,
                late=has_ended,
            )
        term_at = time.monotonic()
        survivors = await tree.end(self._members, lambda: term_at + self._grace)
        if survivors:
            names = ", ".join(tree.describe(process) for process in survivors)
            raise EngineError(
                f"the {self._plan.recipe} engine of {self._plan.model} cannot be ended: {names}",
                hint="a process inside a driver call ends only when the call does",
            )
        status = await asyncio.shield(child.exited)
        child.close()
        self._log.close()
        with suppress(OSError):  # a full disk; a record of what has ended harms nobody
            await asyncio.to_thread(self._run.remove, record.number)
        await wait_port_free(self._plan, started=record.create_time)
        return status

    def _members(self) -> list[psutil.Process]:
        marker = self._environment[MARKER]
        record = self._record
        if record is None:
            return []
        reaped = self._child is not None and self._child.reaped
        return tree.members(
            lambda value: value == marker or value.startswith(f"{marker}/"),
            roots=set() if reaped else {record.pid},
            born_after=record.create_time,
        )

    def _left_behind(self) -> tuple[str, ...]:
        return tuple(tree.describe(process) for process in self._members())


def _give_up(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that nobody watches, and its group. Its output is not read: others may hold the pipe."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    process.wait()
