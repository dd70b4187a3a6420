"""The state of one life of a model's engine, and those who hold it or wait for it.

    STARTING ─▶ READY ─▶ STOPPING ─▶ STOPPED, or FAILED with the reason
        │       │   ▲       ▲
        │       ▼   │       │
        │     DOWNSIZING    │
        │     or EVICTING ──┤
        └───────────────────┘

Only this class writes it: at the wish of `Life`, which runs the engine, and of the pool. An instance is never
started again; the pool makes a new one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Final, NamedTuple

from lemonpod.contract.vocabulary import Accelerator, JsonValue, Mode
from lemonpod.engine.api import (
    Adoptable,
    Engine,
    EngineState,
    EngineStats,
    EngineStatus,
    InstanceState,
    InstanceStatus,
    LogLine,
    Progress,
    Wait,
)
from lemonpod.engine.failure import again, describe_failure, let_go
from lemonpod.engine.search import Search, patience
from lemonpod.engine.slots import Claim, Phase
from lemonpod.engine.stay import Stay, stay_of
from lemonpod.engine.tickets import Tickets
from lemonpod.engine.workshop import Workshop
from lemonpod.errors import EngineError, EngineStoppedError, EngineUnhealthyError, LemonpodError, NoSlotError
from lemonpod.launch.plan import LaunchPlan, TcpEndpoint

WHY_TIMEOUT: Final = 1.0
"""From a connection that broke to the news that its engine has ended."""

_PHASES: Final = {
    InstanceState.STARTING: Phase.FIXED,
    InstanceState.DOWNSIZING: Phase.FIXED,
    InstanceState.READY: Phase.OPEN,
    InstanceState.EVICTING: Phase.CLOSED,
}
_QUEUED: Final = Progress(text="waiting until another model has made room")


class _Downsize(NamedTuple):
    tried: float
    worked: bool


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

    # Every request reads some of these, and CPython reads slots as fast however many there are.
    __slots__ = (
        "_clock", "_downsize", "_made", "_process", "_progress", "_queue", "_said", "_search", "_workshop",
        "awaited", "cause", "claim", "cut", "engine", "found", "hurried", "idle", "in_flight", "leaving",
        "leftover", "life", "model", "nudged", "overrides", "plan", "ready_at", "ready_since", "since",
        "state", "stay", "used",
    )  # fmt: skip

    life: asyncio.Task[None]
    claim: Claim
    """What it asks of the machine, once there is a plan."""

    def __init__(
        self,
        model: str,
        overrides: Mapping[str, JsonValue],
        workshop: Workshop,
        *,
        found: Adoptable | None = None,
    ) -> None:
        self.model = model
        self.overrides = dict(overrides)
        self.found = found
        """An engine that runs already, to be gone on with."""
        self.state = InstanceState.STARTING
        self.plan: LaunchPlan | None = None
        self.engine: Engine | None = None
        self.cause: LemonpodError | None = None
        """Why it is not ready, or no longer."""
        self.leftover: EngineError | None = None  # what could not be ended
        self.stay = Stay()
        self.nudged = asyncio.Event()  # what idleness leads to is to be asked anew
        self.cut = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self.leaving = asyncio.Event()
        """It is not going to be ready, or not any longer; `cause` says why."""
        self.hurried = asyncio.Event()
        self.in_flight = 0
        self.since = workshop.clock()
        """When the first of its requests came. This and what follows by the clock of the workshop."""
        self.used = self.since
        self.ready_since = 0.0
        self.ready_at: float | None = None  # by the wall clock
        self.awaited = False  # another model waits for its place
        self._workshop = workshop
        self._clock = workshop.clock
        self._queue: Tickets[EngineLease] = Tickets()
        self._progress: Progress | None = None
        self._process = EngineStatus(state=EngineState.CREATED)
        self._made = asyncio.Event()
        """There is an engine, or there will be none."""
        self._search: Search | None = None
        self._downsize: _Downsize | None = None
        self._said: dict[str, bool] = {}  # how it is to stay, whatever its options are going to say

    # --- what requests ask of it --------------------------------------------------------------------------

    async def enter(self, until: float) -> EngineLease | None:
        """A lease, once it is ready; raises why it will not be. For an instance that is not STOPPING.

        It is given in the step that makes the instance ready: no unload comes between. None where it had to
        leave meanwhile. Raises NoSlotError if at the time `until` other models still hold its place. The last
        to leave the queue ends a start that would be in vain.
        """
        if lease := self.try_take():
            return lease
        try:
            return await self._queue.wait(lambda: self._patience(until))
        except TimeoutError:
            raise NoSlotError(
                f"{self.model} got no place within {self._workshop.settings.swap_wait:g} s: "
                "other models were in use all the time",
                hint="raise max_loaded_models, or unload one of them",
            ) from None
        finally:
            if not self._queue and self.state is InstanceState.STARTING:
                # A load that goes on for a moment serves a client's quick retry; a wish only blocks others.
                grace = self._workshop.settings.abandon_grace if self._has_place() else 0.0
                asyncio.get_running_loop().call_later(grace, self._abandon)

    def _has_place(self) -> bool:
        """No other model is what it waits for, but in a second try, whose time is limited anyway."""
        if self._search is None or self._search.placed is not None:
            return self.state is not InstanceState.EVICTING
        return self.claim.alone

    def _patience(self, until: float) -> float:
        bound, has_place = self._workshop.settings.swap_wait, self._has_place()
        return patience(self._search, has_place=has_place, until=until, bound=bound, now=self._clock())

    def _abandon(self) -> None:
        if not self._queue and self.state is InstanceState.STARTING:
            self.stop(f"nobody waits for {self.model} any more")

    def try_take(self) -> EngineLease | None:
        """A lease; None where it is not ready."""
        if self.state is not InstanceState.READY or self.plan is None:
            return None
        return self._take(self.plan)

    def _take(self, plan: LaunchPlan) -> EngineLease:
        if not self.in_flight:
            self.idle.clear()
        self.in_flight += 1
        self.used = self._clock()
        return EngineLease(self, plan)

    def give_back(self) -> None:
        """One request less in flight."""
        self.in_flight -= 1
        self.used = self._clock()
        if not self.in_flight:
            self.idle.set()
            if self.awaited:
                self._workshop.changed()

    async def why(self) -> EngineError | None:
        with suppress(TimeoutError):
            async with asyncio.timeout(WHY_TIMEOUT):
                await self.leaving.wait()
        return again(self.cause) if isinstance(self.cause, EngineError) else None

    # --- what the pool asks of it -------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Begin to end it; idempotent."""
        self.leave(EngineStoppedError(reason))

    def hurry(self) -> None:
        """End it at once, whatever is still waited for."""
        self.hurried.set()

    async def ended(self, timeout: float | None = None) -> bool:
        """Wait for the end of the life; whether it came in time."""
        return bool((await asyncio.wait({self.life}, timeout=timeout))[0])

    async def made(self) -> None:
        """Wait until there is an engine, or none will come."""
        await self._made.wait()

    @property
    def phase(self) -> Phase:
        return _PHASES.get(self.state, Phase.LEAVING)

    def close(self) -> None:
        """Let no request in any more: it is to leave once those in flight are through."""
        self.state = InstanceState.EVICTING

    def open(self) -> None:
        """Let requests in, those first that wait."""
        self.state = InstanceState.READY
        if (plan := self.plan) is not None:
            self._queue.serve(lambda: self._take(plan))

    def keep(self, stay: Stay) -> None:
        """From now on it stays so long."""
        self.stay = stay
        self.nudged.set()
        self._workshop.changed()

    def pin(self, pinned: bool) -> None:
        """Whatever its options say, or are going to say."""
        self._said = {"pinned": pinned}
        self.keep(replace(self.stay, pinned=pinned))

    def queued(self, entered: float) -> float:
        """Of the wait of somebody who came then: the seconds in which other models held its place."""
        return 0.0 if self._search is None else self._search.queued(entered)

    # --- what its life tells ------------------------------------------------------------------------------

    def learn(self, plan: LaunchPlan) -> None:
        """So it is to be run; raises LaunchError where its options do not say how long it stays."""
        self.plan = plan
        self.stay = replace(stay_of(plan.options), **self._said)
        self.claim = Claim(
            kind=plan.mode or Mode.CHAT,
            policy=plan.slot_policy,
            on_npu=plan.accelerator is Accelerator.NPU,
        )

    def report(self, progress: Progress | None) -> None:
        self._progress = progress

    def make(self, engine: Engine) -> None:
        self.engine = engine
        self._made.set()

    def ask(self, *, alone: bool = False) -> None:
        """It needs a place now."""
        self._search = Search(self._clock(), None)
        self.claim = replace(self.claim, alone=alone)
        self._progress = _QUEUED

    def settle(self, *, waited: bool) -> None:
        """It has got one."""
        now = self._clock()
        asked = now if self._search is None or not waited else self._search.asked
        self._search = Search(asked, now)
        self._progress = None

    def run(self, process: EngineStatus) -> None:
        self._process = process

    def become_ready(self) -> None:
        self.ready_at = time.time()
        self.ready_since = self.used = self._clock()
        self.claim = replace(self.claim, alone=False)
        self.open()

    def give_memory_back(self) -> None:
        """Have its life ask the idle engine for that. Requests wait until `gave_memory_back`."""
        self.state = InstanceState.DOWNSIZING
        self.nudged.set()

    def gave_memory_back(self, *, worked: bool) -> None:
        self._downsize = _Downsize(self._clock(), worked)
        if self.state is InstanceState.DOWNSIZING:
            self.open()

    @property
    def tried_to_downsize(self) -> bool:
        """And nobody has used it since."""
        return self._downsize is not None and self._downsize.tried > self.used

    def leave(self, cause: LemonpodError) -> None:
        """It is not going to be ready, or not any longer; only the first cause counts.

        Who waits for a start is told why; who waits for an engine that was ready is to ask anew.
        """
        if self.cause is not None:
            return
        was, self.state = self.state, InstanceState.STOPPING
        self.cause, self._progress = cause, None
        self.leaving.set()
        self._made.set()
        if was is InstanceState.STARTING:
            self._queue.fail(cause)
        else:
            self._queue.send_on()

    def end(self) -> None:
        """The life is over."""
        if self.failure is None:
            self.state = InstanceState.STOPPED
        else:
            self.state = InstanceState.FAILED
            let_go(self.failure)

    # --- what may be known of it --------------------------------------------------------------------------

    @property
    def loaded_in(self) -> float | None:
        """The seconds from its start until it was ready; unknown of an engine that was found."""
        placed = self._search.placed if self._search and self.found is None else None
        return None if placed is None else self.ready_since - placed

    def ready_for(self) -> float:
        """The seconds since it became ready; 0 if it never was."""
        return 0.0 if self.ready_at is None else self._clock() - self.ready_since

    def status(self, *, retry_after: float | None = None) -> InstanceStatus:
        failed = self.state is InstanceState.FAILED
        return InstanceStatus(
            model=self.model,
            state=self.state,
            plan=self.plan,
            pid=self._process.pid,
            in_flight=self.in_flight,
            started_at=self._process.started_at,
            ready_at=self.ready_at,
            last_used_at=self.ready_at and self.ready_at + self.used - self.ready_since,
            failure=describe_failure(self.failure) if failed and self.failure else None,
            retry_after=retry_after,
            reset_by_watchdog=failed and isinstance(self.cause, EngineUnhealthyError),
            container=self._process.container,
            progress=self._progress,
            trouble=self.engine.trouble if self.engine is not None else None,
            pinned=self.stay.pinned,
            waiting=len(self._queue),
            is_downsized=self._downsize is not None and self._downsize.worked and self.tried_to_downsize,
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
