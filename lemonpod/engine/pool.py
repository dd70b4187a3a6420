"""The engines of all models: started when they are needed, shared, crashed, cooled down, unloaded."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from lemonpod.broker.ports import PortBroker
from lemonpod.contract.vocabulary import Accelerator, JsonValue
from lemonpod.engine.api import (
    NO_WAIT,
    Adoptable,
    Driver,
    EngineStats,
    Fetch,
    InstanceState,
    InstanceStatus,
    LogLine,
    Planner,
    Report,
    Wait,
)
from lemonpod.engine.cooldown import CoolDown, after_crash
from lemonpod.engine.downsize import downsize as ask_to_downsize
from lemonpod.engine.failure import again, describe_failure
from lemonpod.engine.instance import EngineLease, Instance
from lemonpod.engine.life import begin
from lemonpod.engine.memory import Memory, MemoryWatch
from lemonpod.engine.places import Places
from lemonpod.engine.pressure import Relief
from lemonpod.engine.settings import EngineSettings
from lemonpod.engine.slots import UNLIMITED, Rules
from lemonpod.engine.tally import Starts
from lemonpod.engine.waiting import Waiting
from lemonpod.engine.workshop import Workshop
from lemonpod.errors import (
    CoolingDownError,
    EngineStoppedError,
    ImageNotFoundError,
    ModelNotFoundError,
    ModelNotLoadedError,
    NameConflictError,
    NoSlotError,
    RuntimeUnavailableError,
    SlotsPinnedError,
    SpawnError,
)
from lemonpod.launch.plan import TcpEndpoint

LAST_MEASURES: Final = 2.0
"""Of the shutdown's time, what is kept for engines that must be killed."""

_FREE: Final = (ImageNotFoundError, NameConflictError, RuntimeUnavailableError, SpawnError)
"""Failures of what is around the engine, not of the engine: it costs nothing to try again."""

log = logging.getLogger(__name__)


async def nothing_to_fetch(model: str, report: Report) -> None:
    """For models whose files are there."""


class Pool:
    """At most one engine a model. All methods belong to one event loop; none holds a lock while it waits."""

    def __init__(
        self,
        planner: Planner,
        drivers: Sequence[Driver],
        ports: PortBroker,
        settings: EngineSettings,
        *,
        fetch: Fetch = nothing_to_fetch,
        max_loaded: int = UNLIMITED,
        clock: Callable[[], float] = time.monotonic,
        downsize: Callable[[TcpEndpoint, str], Awaitable[None]] = ask_to_downsize,
        memory: Memory | None = None,
    ) -> None:
        """`fetch` has the files of a model there before its engine is planned.

        `max_loaded` is how many engines of one kind may run at the same time, `memory` what is watched where
        a model may have to make room for others on the machine.
        """
        rules = Rules(limit=max_loaded, turn=settings.swap_turn, linger=settings.swap_linger)
        self._places = Places(rules, clock)
        self._workshop = Workshop(
            fetch=fetch,
            planner=planner,
            drivers=drivers,
            ports=ports,
            settings=settings,
            clock=clock,
            downsize=downsize,
            changed=self._changed,
        )
        self._settings = settings
        self._clock = clock
        self._lives: dict[str, Instance] = {}
        self._memory = MemoryWatch(memory or Memory(), self._lives, settings.swap_linger, clock)
        self._failed: dict[str, Instance] = {}
        """The last failure of a model, for its reason and its log."""
        self._starts: defaultdict[str, Starts] = defaultdict(Starts)
        """Of lives that are over."""
        self._cooldowns: dict[str, CoolDown] = {}
        self._waiting = Waiting(settings)
        self._closing = False

    @property
    def max_loaded(self) -> int:
        """Of engines of one kind; UNLIMITED for any number."""
        return self._places.rules.limit

    def limit_to(self, max_loaded: int) -> None:
        """Let so many engines of one kind run; those beyond it leave when another one needs a place."""
        self._places.rules = replace(self._places.rules, limit=max_loaded)
        self._places.arrange()

    async def load(self, model: str, overrides: Mapping[str, JsonValue] | None = None) -> InstanceStatus:
        """Return when the model is ready, with these options; None stands for whatever it runs with.

        Equal options change nothing, others reload it. Raises what kept it from being ready. The start is
        shared with all who wait for it, and ended soon after the last of them has left.
        """
        lease = await self._enter(model, overrides)
        lease.release()
        return lease.status()

    @asynccontextmanager
    async def lease(self, model: str) -> AsyncIterator[EngineLease]:
        """A ready engine, counted as in use until the block is left."""
        lease = await self._enter(model, None)
        try:
            yield lease
        finally:
            lease.release()

    def try_lease(self, model: str) -> EngineLease | None:
        """A lease of an engine that is ready, to be released by the caller; None where `lease` would wait."""
        instance = self._lives.get(model)
        return None if instance is None or self._closing else instance.try_take()

    async def adopt(self, found: Adoptable) -> None:
        """Go on with an engine that outlived its server, if it would be started in the same way today.

        Returns once that is decided. An engine that was left alone is up to its driver.
        """
        if found.model not in self._lives and not self._closing:
            await self._begin(found.model, found.overrides, found).made()

    def pin(self, model: str, *, pinned: bool) -> None:
        """Let the model's engine make room for no other, or for any again, until it ends.

        At once, also where it is still to be started. Raises ModelNotLoadedError.
        """
        instance = self._lives.get(model)
        if instance is None or instance.cause is not None:
            raise ModelNotLoadedError(f"Model '{model}' is not loaded")
        instance.pin(pinned)

    async def relieve(self, share: float) -> Relief | None:
        """Begin what a reading would lead to that finds every memory so full, and return it."""
        return await self._memory.relieve(dict.fromkeys(Accelerator, share))

    async def unload(self, model: str) -> None:
        """End the model's engine, after its requests or the drain timeout, and forgive its crashes.

        Raises ModelNotLoadedError, or EngineError naming what could not be ended.
        """
        instance = self._lives.get(model)
        if not self._forgive(model) and instance is None:
            raise ModelNotLoadedError(f"Model '{model}' is not loaded")
        if instance is not None:
            instance.stop(f"{model} was unloaded")
            await instance.ended()
            if instance.leftover is not None:
                raise again(instance.leftover)
            self._forgive(model)

    async def unload_all(self) -> None:
        """End all engines at the same time. Raises the first EngineError, when all are through."""
        models = list(self._lives | self._failed)
        outcomes = await asyncio.gather(*map(self.unload, models), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, ModelNotLoadedError):
                raise outcome

    def status(self, model: str) -> InstanceStatus | None:
        """What is to be told of a model; None where there is nothing."""
        instance = self._find(model)
        return None if instance is None else self._status(instance)

    def statuses(self) -> list[InstanceStatus]:
        """All that there is to tell, the most recently used first, the failed last."""
        alive = sorted(self._lives.values(), key=lambda instance: instance.used, reverse=True)
        failed = [instance for model, instance in self._failed.items() if model not in self._lives]
        return [self._status(instance) for instance in [*alive, *failed]]

    def starts(self) -> dict[str, Starts]:
        """What came of the starts of each model."""
        alive = {model: self._starts[model].counting(instance) for model, instance in self._lives.items()}
        return {**self._starts, **alive}

    def logs(
        self, model: str, *, tail: int | None = None, follow: bool = False
    ) -> AsyncGenerator[LogLine, None]:
        """The output of the model's engine, or of the one that failed last. Raises ModelNotLoadedError."""
        return self._known(model).logs(tail=tail, follow=follow)

    async def stats(self, model: str) -> EngineStats:
        """What the model's engine uses. Raises ModelNotLoadedError."""
        return await self._known(model).stats()

    async def aclose(self) -> None:
        """End everything, starts included, within the shutdown timeout; nothing starts any more."""
        if self._closing:
            return  # what has not ended in its time gets no more of it
        self._closing = True
        for instance in list(self._lives.values()):
            instance.stop("the server is shutting down")
        self._memory.stop()
        last_measures = min(LAST_MEASURES, self._settings.shutdown_timeout / 2)
        if not await self._all_ended(self._settings.shutdown_timeout - last_measures):
            self.hurry()
            if not await self._all_ended(last_measures):
                log.error("still running after the shutdown timeout: %s", ", ".join(self._lives))

    def hurry(self) -> None:
        """Kill what is still being drained or ended."""
        for instance in list(self._lives.values()):
            instance.hurry()

    async def _all_ended(self, timeout: float) -> bool:
        lives = {instance.life for instance in self._lives.values()}
        return not lives or not (await asyncio.wait(lives, timeout=timeout))[1]

    async def _enter(self, model: str, overrides: Mapping[str, JsonValue] | None) -> EngineLease:
        if overrides is None and (lease := self.try_lease(model)) is not None:
            lease.wait = NO_WAIT
            return lease
        with self._waiting.one_more(model):
            return await self._wait(model, overrides)

    async def _wait(self, model: str, overrides: Mapping[str, JsonValue] | None) -> EngineLease:
        begun = entered = self._clock()
        until = begun + self._settings.swap_wait
        while True:
            if self._closing:
                raise EngineStoppedError("the server is shutting down")
            instance = self._lives.get(model) or self._begin(model, overrides or {})
            instance.since = min(instance.since, begun)
            was, lease = instance.state, None
            if was is not InstanceState.STOPPING:
                lease = await instance.enter(until)
            elif not await instance.ended(until - entered):
                raise NoSlotError(f"the last engine of {model} is still ending", hint="try again")
            if lease is None:  # it has left, or is leaving
                entered = self._clock()
                continue
            lease.wait = self._waited(instance, was, begun, entered)
            try:
                if overrides is None or not await self._is_other(instance, overrides):
                    return lease
            except BaseException:
                lease.release()
                raise
            lease.release()
            instance.stop(f"{model} is loaded again with other options")

    def _waited(self, instance: Instance, was: InstanceState, begun: float, entered: float) -> Wait:
        """What somebody waited for who met the instance in the state that it was in."""
        now, queued = self._clock(), entered - begun
        if was is not InstanceState.STARTING:
            queued = 0.0 if was is InstanceState.READY and not queued else now - begun
            return Wait(queued or None, None)
        queued += instance.queued(entered)
        return Wait(queued or None, now - begun - queued)

    def _begin(
        self, model: str, overrides: Mapping[str, JsonValue], found: Adoptable | None = None
    ) -> Instance:
        instance = self._lives[model] = begin(model, overrides, self._workshop, self, found=found)
        return instance

    async def _is_other(self, instance: Instance, overrides: Mapping[str, JsonValue]) -> bool:
        """Whether these options would start another engine than the one that runs; if not, they may still
        change how long it stays."""
        plan = instance.plan
        if plan is None:
            return False
        if instance.overrides != dict(overrides):
            plan = await self._workshop.planner.plan(instance.model, overrides, plan.endpoint.port)
            if instance.plan is None or plan.digest != instance.plan.digest:
                return True
        instance.keep(instance.stay.changed_by(plan.options, overrides))
        return False

    # --- for the lives ------------------------------------------------------------------------------------

    def admit(self, instance: Instance) -> None:
        """Refuse what failed a moment ago, unless something about its plan has changed."""
        model = instance.model
        rest = self._rest(instance)
        if rest is None:
            if instance.found is not None and not self._places.take(instance):
                raise EngineStoppedError(f"{model} has no place any more")
            return
        crashes = self._cooldowns[model].crashes
        times = "once" if crashes == 1 else f"{crashes} times in a row"
        failure = self._failed[model].failure if model in self._failed else None
        raise CoolingDownError(
            f"{model} failed {times} and may start again in {rest:.1f} s"
            + (f": {failure.message}" if failure else ""),
            retry_after=rest,
            hint="correct what made it fail, or unload it to try again at once",
        )

    def _rest(self, instance: Instance) -> float | None:
        """How long the plan of this instance must still wait for its next start."""
        cooldown = self._cooldowns.get(instance.model)
        if cooldown is None or instance.plan is None:
            return None
        return cooldown.rest(instance.plan.digest, self._clock())

    async def place(self, instance: Instance) -> bool:
        """Return once it has a place; whether it had to wait. Raises SlotsPinnedError."""
        return await self._places.wait(instance)

    async def place_alone(self, instance: Instance) -> bool:
        """Trade its place for one with no other model loaded; False where none could leave."""
        return await self._places.wait_alone(instance)

    def ended(self, instance: Instance) -> None:
        """File the outcome of a life."""
        model, failure = instance.model, instance.failure
        del self._lives[model]
        self._places.leave(instance)
        self._memory.settle()
        self._memory.attend()
        self._starts[model] = self._starts[model].counting(instance)
        if isinstance(failure, ModelNotFoundError):
            self._forgive(model)
        if failure is None and instance.engine is not None:
            log.info("%s has ended: %s", model, instance.cause)
        if failure is None or instance.plan is None or instance.engine is None:
            return  # it ended well, or there never was an engine: whoever waited has been told
        if isinstance(failure, SlotsPinnedError):
            return  # nor was there one here
        self._failed[model] = instance
        log.warning("%s", describe_failure(failure))
        if failure is not instance.leftover and not isinstance(failure, _FREE):
            self._cooldowns[model] = after_crash(
                self._cooldowns.get(model),
                digest=instance.plan.digest,
                now=self._clock(),
                ready_for=instance.ready_for(),
                settings=self._settings,
            )

    def _changed(self) -> None:
        """See to what depends on who is loaded, and how long each stays."""
        self._places.arrange()
        self._memory.attend()

    def _forgive(self, model: str) -> bool:
        """Forget failure and cool-down; whether there was anything to forget."""
        self._cooldowns.pop(model, None)
        return self._failed.pop(model, None) is not None

    def _find(self, model: str) -> Instance | None:
        return self._lives.get(model) or self._failed.get(model)

    def _known(self, model: str) -> Instance:
        instance = self._find(model)
        if instance is None:
            raise ModelNotLoadedError(
                f"Model '{model}' is not loaded", hint="what it wrote is kept until it is unloaded"
            )
        return instance

    def _status(self, instance: Instance) -> InstanceStatus:
        failed = instance.state is InstanceState.FAILED
        return instance.status(retry_after=self._rest(instance) if failed else None)
