"""One life of a model's engine, from the port lease to the last process gone, in a task of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from lemonpod.broker.ports import PortLease
from lemonpod.contract.vocabulary import JsonValue, ProbeType
from lemonpod.engine.api import Adoptable, Engine, InstanceState
from lemonpod.engine.failure import LOG_TAIL, exited_error, may_fit_alone, with_doubt
from lemonpod.engine.instance import Instance
from lemonpod.engine.probe import until_ready
from lemonpod.engine.stay import Step, next_step
from lemonpod.engine.tasks import cancel, finish, first
from lemonpod.engine.watchdog import watch
from lemonpod.engine.workshop import Workshop
from lemonpod.errors import EngineError, EngineStoppedError, LemonpodError, SlotsPinnedError, SpawnError
from lemonpod.launch.plan import LaunchPlan

T = TypeVar("T")

_SHORTEST: Final = 0.001
"""A clock may say a moment before the end of a wait that it is not over."""

log = logging.getLogger(__name__)


class Keeper(Protocol):
    """Whom a life asks before it goes on, and tells of its end: the pool."""

    def admit(self, instance: Instance) -> None:
        """Refuse its plan by raising. An engine that was found gets its place here or not at all."""

    async def place(self, instance: Instance) -> bool:
        """Return once it has a place; whether it had to wait. Raises SlotsPinnedError."""

    async def place_alone(self, instance: Instance) -> bool:
        """Trade its place for one with no other model loaded; False where none could leave."""

    def ended(self, instance: Instance) -> None:
        """Called once."""


def begin(
    model: str,
    overrides: Mapping[str, JsonValue],
    workshop: Workshop,
    keeper: Keeper,
    *,
    found: Adoptable | None = None,
) -> Instance:
    """A new instance whose life has begun. With `found` it goes on with that engine, or ends at once."""
    instance = Instance(model, overrides, workshop, found=found)
    life = Life(instance, workshop, keeper)
    instance.life = asyncio.create_task(life.live(), name=f"life of {model}")
    return instance


class Life:
    """Runs the engine of one instance."""

    _engine: Engine

    def __init__(self, instance: Instance, workshop: Workshop, keeper: Keeper) -> None:
        self._instance = instance
        self._workshop = workshop
        self._settings = workshop.settings
        self._keeper = keeper

    async def live(self) -> None:
        """Return when nothing of it is left."""
        instance, ports = self._instance, self._workshop.ports
        try:
            found = instance.found
            with ports.lease() if found is None else ports.lease_held(found.port) as lease:
                await self._run(lease)
        except LemonpodError as error:
            instance.leave(error)
        except Exception as error:
            log.exception("the life of %s ended by a bug", instance.model)
            instance.leave(EngineError(f"internal error: {error!r}"))
        finally:
            instance.leave(EngineStoppedError("the server is shutting down"))  # if nothing else has ended it
            instance.end()
            self._keeper.ended(instance)

    async def _run(self, lease: PortLease) -> None:
        begun = time.monotonic()
        instance, planner = self._instance, self._workshop.planner
        if instance.found is None:
            await self._unless_stopped(self._workshop.fetch(instance.model, instance.report))
            instance.report(None)
        plan = await self._unless_stopped(planner.plan(instance.model, instance.overrides, lease.port))
        instance.learn(plan)
        if instance.found is not None and instance.found.digest != plan.digest:
            raise EngineStoppedError(f"{instance.model} would be started in another way now")
        self._keeper.admit(instance)
        if plan.by_cli is not None:
            log.info("%s is run by its command line: %s", instance.model, plan.by_cli)
        self._make(plan)
        try:
            await self._bring_up(plan, lease)
            instance.become_ready()
            self._workshop.changed()
            log.info(
                "%s is ready at %s after %.1f s", instance.model, plan.endpoint.url, time.monotonic() - begun
            )
            await self._unless_stopped(self._serve())
        except LemonpodError as error:
            # Whoever waits hears it now; what is left is cleared away meanwhile.
            instance.leave(with_doubt(error, plan))
        except asyncio.CancelledError:
            instance.hurry()
            raise
        finally:
            await finish(self._end())

    async def _unless_stopped(self, work: Awaitable[T]) -> T:
        """The outcome of `work`, or the cause that came first."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.create_task(self._instance.leaving.wait())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if self._instance.cause is not None:
                raise self._instance.cause
            return working.result()
        finally:
            await cancel(working, leaving)

    def _make(self, plan: LaunchPlan) -> None:
        for driver in self._workshop.drivers:
            if driver.accepts(plan):
                self._engine = driver.create(plan)
                self._instance.make(self._engine)
                return
        raise SpawnError(f"no driver runs what the {plan.recipe} recipe describes")

    async def _bring_up(self, plan: LaunchPlan, lease: PortLease) -> None:
        """Return once it is ready. What is fetched for it is fetched before others make room."""
        await self._unless_stopped(self._engine.prepare(self._instance.report))
        self._instance.ask()
        waited = await self._unless_stopped(self._keeper.place(self._instance))
        self._instance.settle(waited=waited)
        lease.hand_over()
        try:
            await self._unless_stopped(self._start())
        except LemonpodError as error:
            if not may_fit_alone(error) or not await self._have_it_alone(error):
                raise
            self._instance.settle(waited=True)
            self._make(plan)
            await self._unless_stopped(self._engine.prepare(self._instance.report))
            await self._unless_stopped(self._start())

    async def _start(self) -> None:
        self._instance.run(await self._engine.start())
        await until_ready(self._engine)

    async def _have_it_alone(self, failure: LemonpodError) -> bool:
        """After a failed start: whether all others have made room for another try."""
        await finish(self._engine.stop(grace=self._settings.stop_grace))
        self._instance.ask(alone=True)
        try:
            async with asyncio.timeout(self._settings.swap_wait):
                is_alone = await self._unless_stopped(self._keeper.place_alone(self._instance))
        except (TimeoutError, SlotsPinnedError):
            return False
        if is_alone:
            log.warning("%s; it is tried once more with nothing else loaded", str(failure))
        return is_alone

    async def _serve(self) -> None:
        """Return never: raises how the engine came to its end, or EngineUnhealthyError."""
        engine = self._engine
        exited = asyncio.create_task(engine.wait())
        keeping = [asyncio.create_task(work) for work in (self._watch(engine), self._rest(engine.plan))]
        try:
            await asyncio.wait({exited, *keeping}, return_when=asyncio.FIRST_COMPLETED)
            for task in keeping:
                if task.done() and not exited.done():
                    task.result()
            raise exited_error(engine.plan, await exited, engine.log_tail(LOG_TAIL))
        finally:
            await cancel(exited, *keeping)

    async def _watch(self, engine: Engine) -> None:
        if self._settings.watchdog and engine.plan.probe.type is ProbeType.HTTP:
            await watch(engine, self._settings, busy=lambda: self._instance.in_flight > 0)
        await asyncio.get_running_loop().create_future()

    async def _rest(self, plan: LaunchPlan) -> None:
        """Return never: give back what an idle engine holds, its memory first, then its place."""
        instance = self._instance
        while True:
            await instance.idle.wait()
            instance.nudged.clear()
            if instance.state is InstanceState.DOWNSIZING and plan.downsize_endpoint is not None:
                await self._downsize(plan, plan.downsize_endpoint)
                continue
            coming = next_step(
                instance.stay,
                idle=self._workshop.clock() - instance.used,
                can_downsize=plan.downsize_endpoint is not None,
                is_downsized=instance.tried_to_downsize,
            )
            if coming is None or coming.delay > 0.0 or instance.state is not InstanceState.READY:
                with suppress(TimeoutError):
                    async with asyncio.timeout(coming and max(coming.delay, _SHORTEST)):
                        await instance.nudged.wait()
            elif coming.step is Step.UNLOAD:
                instance.stop(f"{instance.model} was idle for {instance.stay.evict_idle_timeout:g} s")
            else:
                instance.give_memory_back()

    async def _downsize(self, plan: LaunchPlan, path: str) -> None:
        """Requests wait meanwhile; the next one makes the engine grow again, in its own way."""
        worked = False
        try:
            await self._workshop.downsize(plan.endpoint, path)
            worked = True
            log.info("%s gave memory back", plan.model)
        except EngineError as error:
            log.warning("%s gave no memory back: %s", plan.model, error)
        finally:
            self._instance.gave_memory_back(worked=worked)
            self._workshop.changed()

    async def _end(self) -> None:
        """Drain, unless the engine has ended by itself, then stop it."""
        instance, settings, engine = self._instance, self._settings, self._engine
        hurried = asyncio.create_task(instance.hurried.wait())
        try:
            if instance.in_flight and isinstance(instance.cause, EngineStoppedError):
                await first(instance.idle.wait(), hurried, timeout=settings.drain_timeout)
            instance.cut.set()
            stopping = asyncio.create_task(engine.stop(grace=settings.stop_grace))
            await asyncio.wait({stopping, hurried}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                await asyncio.gather(stopping, engine.stop(grace=0.0))
            stopping.result()
        except EngineError as error:
            instance.leftover = error
            log.error("%s", error)
        finally:
            await cancel(hurried)
