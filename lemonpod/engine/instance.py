"""One life of a model's engine, from the port lease to the last process gone.

The life runs in a task of its own, and only this class writes its state:

    STARTING ─▶ READY ─▶ STOPPING ─▶ STOPPED, or FAILED with the reason
        └───────────────────▲

An instance is never started again; the pool makes a new one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from lemonpod.broker.ports import PortBroker, PortLease
from lemonpod.contract.vocabulary import JsonValue, ProbeType
from lemonpod.engine.api import (
    Adoptable,
    Driver,
    Engine,
    EngineStats,
    InstanceState,
    InstanceStatus,
    LogLine,
    Planner,
    Progress,
    Wait,
)
from lemonpod.engine.failure import LOG_TAIL, again, describe_failure, exited_error, let_go, with_doubt
from lemonpod.engine.probe import until_ready
from lemonpod.engine.settings import EngineSettings
from lemonpod.engine.tasks import cancel, finish, first
from lemonpod.engine.watchdog import watch
from lemonpod.errors import (
    EngineError,
    EngineStoppedError,
    EngineUnhealthyError,
    LemonpodError,
    SpawnError,
)
from lemonpod.launch.plan import LaunchPlan, TcpEndpoint

WHY_TIMEOUT: Final = 1.0
"""From a connection that broke to the news that its engine has ended."""

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What lives are made with."""

    planner: Planner
    drivers: Sequence[Driver]
    ports: PortBroker
    settings: EngineSettings
    clock: Callable[[], float]
    """Monotonic seconds."""


class EngineLease:
    """A ready engine that is not unloaded while the lease is held, within the drain timeout."""

    __slots__ = ("_held", "_instance", "cut", "plan", "wait")

    wait: Wait
    """Of a lease that `Pool.lease` gave."""

    def __init__(self, instance: Instance, plan: LaunchPlan) -> None:
        self.plan = plan
        self.cut = instance.cut
        """Set when the engine is about to be ended, or has ended by itself: `why` tells."""
        self._instance = instance
        self._held = True

    @property
    def endpoint(self) -> TcpEndpoint:
        return self.plan.endpoint

    async def why(self) -> EngineError | None:
        """After the connection broke: what became of the engine; None if it still runs."""
        return await self._instance.why()

    def status(self) -> InstanceStatus:
        return self._instance.status()

    def release(self) -> None:
        """Idempotent."""
        if self._held:
            self._held = False
            self._instance.give_back()


class Instance:
    """One life. Its state may be read by all, and is written here only."""

    def __init__(
        self,
        model: str,
        overrides: Mapping[str, JsonValue],
        workshop: Workshop,
        *,
        admit: Callable[[Instance], None],
        on_end: Callable[[Instance], None],
        found: Adoptable | None = None,
    ) -> None:
        """Begin the life. `admit` may refuse its plan by raising; `on_end` is called once, at the end.

        With `found` it goes on with an engine that runs already, or ends at once.
        """
        self.model = model
        self.overrides = dict(overrides)
        self.state = InstanceState.STARTING
        self.plan: LaunchPlan | None = None
        self.engine: Engine | None = None
        self.cause: LemonpodError | None = None
        """Why it is not ready, or no longer."""
        self.leftover: EngineError | None = None
        """What could not be ended."""
        self.cut = asyncio.Event()
        self.ready_at: float | None = None
        self.used = workshop.clock()
        """When it was used last, by the clock of the workshop."""
        self._ready_since = 0.0
        self._found = found
        self._workshop = workshop
        self._clock = workshop.clock
        self._admit = admit
        self._on_end = on_end
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._queue: list[asyncio.Future[EngineLease]] = []
        self._progress: Progress | None = None
        self._pid: int | None = None
        self._container: str | None = None
        self._started_at: float | None = None
        self._made = asyncio.Event()
        """There is an engine, or there will be none."""
        self._leaving = asyncio.Event()
        """It is not going to be ready, or not any longer; `cause` says why."""
        self._hurried = asyncio.Event()
        self.life = asyncio.create_task(self._live(), name=f"life of {model}")

    # --- what others may ask and wish ---------------------------------------------------------------------

    async def enter(self) -> EngineLease:
        """A lease, once it is ready; raises why it will not be. For a STARTING or READY instance.

        The lease is given in the step that makes the instance ready: no unload comes between. The last to
        leave the queue ends a start that would be in vain.
        """
        if lease := self.try_take():
            return lease
        ticket: asyncio.Future[EngineLease] = asyncio.get_running_loop().create_future()
        self._queue.append(ticket)
        try:
            return await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled() and ticket.exception() is None:
                ticket.result().release()
            raise
        finally:
            self._queue.remove(ticket)
            if not self._queue and self.state is InstanceState.STARTING:
                grace = self._workshop.settings.abandon_grace
                asyncio.get_running_loop().call_later(grace, self._abandon)

    def _abandon(self) -> None:
        if not self._queue and self.state is InstanceState.STARTING:
            self.stop(f"nobody waits for {self.model} any more")

    async def ended(self) -> None:
        """Wait for the end of the life."""
        await asyncio.wait({self.life})

    async def made(self) -> None:
        """Wait until there is an engine, or none will come."""
        await self._made.wait()

    def try_take(self) -> EngineLease | None:
        """A lease; None where it is not ready."""
        if self.state is not InstanceState.READY or self.plan is None:
            return None
        return self._take(self.plan)

    def _take(self, plan: LaunchPlan) -> EngineLease:
        if not self._in_flight:
            self._idle.clear()
        self._in_flight += 1
        self.used = self._clock()
        return EngineLease(self, plan)

    def give_back(self) -> None:
        """One request less in flight."""
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()
        self.used = self._clock()

    def stop(self, reason: str) -> None:
        """Begin to end it; idempotent."""
        if self.state in (InstanceState.STARTING, InstanceState.READY):
            self._leave(EngineStoppedError(reason))

    def hurry(self) -> None:
        """End it at once, whatever is still waited for."""
        self._hurried.set()

    async def why(self) -> EngineError | None:
        with suppress(TimeoutError):
            async with asyncio.timeout(WHY_TIMEOUT):
                await self._leaving.wait()
        return again(self.cause) if isinstance(self.cause, EngineError) else None

    def ready_for(self) -> float:
        """The seconds since it became ready; 0 if it never was."""
        return 0.0 if self.ready_at is None else self._clock() - self._ready_since

    def status(self, *, retry_after: float | None = None) -> InstanceStatus:
        failed = self.state is InstanceState.FAILED
        return InstanceStatus(
            model=self.model,
            state=self.state,
            plan=self.plan,
            pid=self._pid,
            in_flight=self._in_flight,
            started_at=self._started_at,
            ready_at=self.ready_at,
            last_used_at=self.ready_at and self.ready_at + self.used - self._ready_since,
            failure=describe_failure(self.failure) if failed and self.failure else None,
            retry_after=retry_after,
            reset_by_watchdog=failed and isinstance(self.cause, EngineUnhealthyError),
            container=self._container,
            progress=self._progress,
            trouble=self.engine.trouble if self.engine is not None else None,
        )

    @property
    def failure(self) -> LemonpodError | None:
        """What makes the end of this life a failure."""
        return self.leftover if isinstance(self.cause, EngineStoppedError) else self.cause

    async def stats(self) -> EngineStats:
        return await self.engine.stats() if self.engine is not None else EngineStats()

    async def logs(self, *, tail: int | None, follow: bool) -> AsyncGenerator[LogLine, None]:
        if self.engine is None and follow:
            await self._made.wait()
        if self.engine is not None:
            async with aclosing(self.engine.logs(tail=tail, follow=follow)) as lines:
                async for line in lines:
                    yield line

    # --- the life -----------------------------------------------------------------------------------------

    async def _live(self) -> None:
        try:
            ports = self._workshop.ports
            with ports.lease() if self._found is None else ports.lease_held(self._found.port) as lease:
                await self._run(lease)
        except LemonpodError as error:
            self._leave(error)
        except Exception as error:
            log.exception("the life of %s ended by a bug", self.model)
            self._leave(EngineError(f"internal error: {error!r}"))
        finally:
            self._leave(EngineStoppedError("the server is shutting down"))  # if nothing else has ended it
            if self.failure is None:
                self.state = InstanceState.STOPPED
            else:
                self.state = InstanceState.FAILED
                let_go(self.failure)
            self._on_end(self)

    async def _run(self, lease: PortLease) -> None:
        begun = time.monotonic()
        planner = self._workshop.planner
        self.plan = await self._unless_stopped(planner.plan(self.model, self.overrides, lease.port))
        if self._found is not None and self._found.digest != self.plan.digest:
            raise EngineStoppedError(f"{self.model} would be started in another way now")
        self._admit(self)
        if self.plan.by_cli is not None:
            log.info("%s is run by its command line: %s", self.model, self.plan.by_cli)
        self.engine = self._driver(self.plan).create(self.plan)
        self._made.set()
        try:
            await self._unless_stopped(self.engine.prepare(self._report))
            self._progress = None
            lease.hand_over()
            await self._unless_stopped(self._start(self.engine))
            self._become_ready(self.plan, took=time.monotonic() - begun)
            await self._unless_stopped(self._serve(self.engine))
        except LemonpodError as error:
            # Whoever waits hears it now; what is left is cleared away meanwhile.
            self._leave(with_doubt(error, self.plan))
        except asyncio.CancelledError:
            self.hurry()
            raise
        finally:
            await finish(self._end(self.engine))

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """The outcome of `work`, or the cause that came first."""
        working = asyncio.create_task(work)
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if self.cause is not None:
                raise self.cause
            return working.result()
        finally:
            await cancel(working, leaving)

    def _report(self, progress: Progress) -> None:
        self._progress = progress

    def _driver(self, plan: LaunchPlan) -> Driver:
        for driver in self._workshop.drivers:
            if driver.accepts(plan):
                return driver
        raise SpawnError(f"no driver runs what the {plan.recipe} recipe describes")

    async def _start(self, engine: Engine) -> None:
        status = await engine.start()
        self._pid, self._started_at = status.pid, status.started_at
        self._container = status.container
        await until_ready(engine)

    async def _serve(self, engine: Engine) -> None:
        """Return never: raises how the engine came to its end, or EngineUnhealthyError."""
        exited = asyncio.create_task(engine.wait())
        watching = asyncio.create_task(self._watch(engine))
        try:
            await asyncio.wait({exited, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not exited.done():
                watching.result()
            raise exited_error(engine.plan, await exited, engine.log_tail(LOG_TAIL))
        finally:
            await cancel(exited, watching)

    async def _watch(self, engine: Engine) -> None:
        settings = self._workshop.settings
        if settings.watchdog and engine.plan.probe.type is ProbeType.HTTP:
            await watch(engine, settings, busy=lambda: self._in_flight > 0)
        await asyncio.get_running_loop().create_future()

    async def _end(self, engine: Engine) -> None:
        """Drain, unless the engine has ended by itself, then stop it."""
        settings = self._workshop.settings
        hurried = asyncio.create_task(self._hurried.wait())
        try:
            if self._in_flight and isinstance(self.cause, EngineStoppedError):
                await first(self._idle.wait(), hurried, timeout=settings.drain_timeout)
            self.cut.set()
            stopping = asyncio.create_task(engine.stop(grace=settings.stop_grace))
            await asyncio.wait({stopping, hurried}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                await asyncio.gather(stopping, engine.stop(grace=0.0))
            stopping.result()
        except EngineError as error:
            self.leftover = error
            log.error("%s", error)
        finally:
            await cancel(hurried)

    def _become_ready(self, plan: LaunchPlan, *, took: float) -> None:
        self.state = InstanceState.READY
        self.ready_at = time.time()
        self._ready_since = self._clock()
        self.used = self._ready_since
        for ticket in self._queue:
            if not ticket.done():
                ticket.set_result(self._take(plan))
        log.info("%s is ready at %s after %.1f s", self.model, plan.endpoint.url, took)

    def _leave(self, cause: LemonpodError) -> None:
        if self.cause is None:
            self.cause = cause
            self.state = InstanceState.STOPPING
            self._progress = None
            self._leaving.set()
            self._made.set()
            for ticket in self._queue:
                if not ticket.done():
                    ticket.set_exception(again(cause))
