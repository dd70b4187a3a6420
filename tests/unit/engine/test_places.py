"""A pool with few places: who waits, who leaves, who is told no. On a simulated clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from lemonpod.broker.ports import PortBroker
from lemonpod.contract.vocabulary import JsonValue, Mode
from lemonpod.engine.api import Adoptable, InstanceState
from lemonpod.engine.pool import Pool
from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import (
    EngineExitedError,
    LaunchError,
    ModelNotLoadedError,
    NoSlotError,
    QueueFullError,
    SlotsPinnedError,
)
from lemonpod.launch.plan import TcpEndpoint
from tests import virtual_time
from tests.fakes.machine import Machine, Model
from tests.waiting import unused_ports

PORTS = 8


class World:
    """One pool on one simulated machine."""

    def __init__(self, machine: Machine, settings: EngineSettings) -> None:
        first = unused_ports(PORTS)
        self.machine = machine
        self.downsized: list[str] = []
        self.pool = Pool(
            machine,
            [machine],
            PortBroker(first, first + PORTS - 1),
            settings,
            max_loaded=machine.limit,
            clock=asyncio.get_running_loop().time,
            downsize=self._downsize,
            fetch=machine.fetch,
        )

    async def _downsize(self, endpoint: TcpEndpoint, path: str) -> None:
        self.downsized.append(path)
        await asyncio.sleep(1.0)

    async def use(self, model: str, seconds: float = 1.0) -> float:
        """One request; returns how long it waited for its engine."""
        came = self.now()
        async with self.pool.lease(model):
            waited = self.now() - came
            await asyncio.sleep(seconds)
            return waited

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return asyncio.create_task(work)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def state(self, model: str) -> InstanceState | None:
        status = self.pool.status(model)
        return status.state if status else None

    @property
    def starts(self) -> list[str]:
        return [engine.model.name for engine in self.machine.engines if engine.started_at is not None]

    @property
    def running(self) -> list[str]:
        return [engine.model.name for engine in self.machine.running]


Scene = Callable[[World], Coroutine[Any, Any, None]]


def machine_of(*models: Model, limit: int = 1, memory: float = inf) -> Machine:
    return Machine({model.name: model for model in models}, limit=limit, memory=memory)


A, B, C = (Model(name=name, loads_in=4.0, ends_in=0.5) for name in "abc")


def on(
    *models: Model, limit: int = 1, memory: float = inf, **settings: Any
) -> Callable[[Scene], Callable[[], None]]:
    """Make a test of a scene."""

    def decorate(scene: Scene) -> Callable[[], None]:
        async def play() -> None:
            chosen = EngineSettings(**({"watchdog": False} | settings))
            world = World(machine_of(*models, limit=limit, memory=memory), chosen)
            try:
                await scene(world)
            finally:
                await world.pool.aclose()
            assert world.running == []

        return lambda: virtual_time.run(play())

    return decorate


# --- room -------------------------------------------------------------------------------------------------


@on(A, B)
async def test_one_makes_room_for_the_other(world: World) -> None:
    await world.use("a")
    async with world.pool.lease("b") as lease:
        assert world.running == ["b"]
        assert lease.wait.queued == pytest.approx(0.25 + 0.5)  # it might have been asked again, and it ended
        assert lease.wait.loaded == pytest.approx(4.0)
    assert world.state("a") is None


@on(A, B)
async def test_an_engine_idle_for_long_makes_room_at_once(world: World) -> None:
    await world.use("a")
    await asyncio.sleep(100)
    assert await world.use("b") == pytest.approx(0.5 + 4.0)


@on(A, replace(B, kind=Mode.EMBEDDINGS))
async def test_the_limit_is_for_each_kind(world: World) -> None:
    await world.use("a")
    await world.use("b")
    assert world.running == ["a", "b"]


@on(A, B, swap_turn=5.0)
async def test_a_busy_engine_is_waited_for(world: World) -> None:  # L23
    long = world.begin(world.use("a", 60.0))
    await asyncio.sleep(10)
    other = world.begin(world.use("b"))
    await asyncio.sleep(1)
    assert world.state("a") is InstanceState.EVICTING
    late = world.begin(world.use("a"))  # comes after b, for which the engine is closed
    assert await other == pytest.approx(54.0 + 0.5 + 4.0)
    assert long.done()
    await late
    assert world.starts == ["a", "b", "a"]


@on(A, B, swap_turn=5.0, swap_wait=20.0)
async def test_who_waits_too_long_is_told_and_the_engine_serves_on(world: World) -> None:
    long = world.begin(world.use("a", 60.0))
    await asyncio.sleep(10)
    with pytest.raises(
        NoSlotError, match="b got no place within 20 s: other models were in use all the time"
    ):
        await world.use("b")
    assert await world.use("a") == 0.0
    assert world.state("b") is None
    await long
    assert world.starts == ["a"]


@on(A, replace(B, fetches_in=50.0), swap_turn=5.0, swap_wait=20.0)
async def test_a_fetch_is_no_wait_for_a_place_and_what_follows_has_its_bound(world: World) -> None:
    long = world.begin(world.use("a", 100.0))
    await asyncio.sleep(10)
    came = world.now()
    with pytest.raises(NoSlotError):
        await world.use("b")
    assert world.now() - came == pytest.approx(50.0 + 20.0)
    await long


@on(A, B, swap_turn=5.0, swap_wait=50.0)
async def test_who_waits_for_a_closed_engine_gets_it_when_it_opens_again(world: World) -> None:
    long = world.begin(world.use("a", 90.0))
    await asyncio.sleep(10)
    other = world.begin(world.use("b"))
    await asyncio.sleep(20)
    late = world.begin(world.use("a"))
    with pytest.raises(NoSlotError):
        await other
    assert await late == pytest.approx(30.0)
    await long


@on(A, B, swap_turn=10.0)
async def test_interleaved_requests_are_collated(world: World) -> None:  # L23
    waits = []

    async def client(model: str) -> None:
        for _ in range(50):
            waits.append(await world.use(model, 0.5))

    await asyncio.gather(*(client(model) for model in "ababab"))
    assert len(waits) == 300
    assert len(world.starts) <= 10
    assert max(waits) <= 4.0 + 2 * (0.5 + 0.5 + 4.0) + 10.0


@on(A, B, max_queue=2)
async def test_more_than_may_wait_are_turned_away(world: World) -> None:
    waiting = [world.begin(world.use("a")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFullError, match="2 requests wait for a already") as refused:
        await world.use("a")
    assert refused.value.retry_after == 30.0
    await asyncio.gather(*waiting, world.use("b"))
    await asyncio.gather(*(world.use("b") for _ in range(5)))  # who needs not wait is not counted


@on(A, B)
async def test_a_wish_that_everybody_has_left_holds_up_nobody(world: World) -> None:
    long = world.begin(world.use("a", 20.0))
    await asyncio.sleep(10)
    other = world.begin(world.use("b"))
    await asyncio.sleep(1)
    other.cancel()
    await asyncio.sleep(0)
    assert await world.use("a") == 0.0
    await long
    await asyncio.sleep(60)
    assert world.starts == ["a"]


# --- pinned -----------------------------------------------------------------------------------------------


@on(A, replace(B, options={"pinned": True}))
async def test_the_pinned_stay(world: World) -> None:
    await world.use("b")
    with pytest.raises(SlotsPinnedError, match=r"a has no place: b is pinned \(unload or unpin b"):
        await world.use("a")
    await asyncio.sleep(0.1)
    assert world.pool.status("a") is None
    status = world.pool.status("b")
    assert status
    assert status.pinned
    world.pool.pin("b", pinned=False)
    await world.use("a")
    assert world.running == ["a"]


@on(A, B)
async def test_a_model_is_pinned_by_a_load_without_a_restart(world: World) -> None:
    await world.use("a")
    await world.pool.load("a", {"pinned": True})
    await world.pool.load("a")  # says nothing of it
    with pytest.raises(SlotsPinnedError):
        await world.use("b")
    await world.pool.load("a", {"pinned": False})
    await world.use("b")
    assert world.starts == ["a", "b"]


@on(A, B, swap_turn=1.0)
async def test_a_pin_opens_a_closed_engine_again(world: World) -> None:
    long = world.begin(world.use("a", 60.0))
    await asyncio.sleep(10)
    other = world.begin(world.use("b"))
    await asyncio.sleep(1)
    world.pool.pin("a", pinned=True)
    with pytest.raises(SlotsPinnedError):
        await other
    assert world.state("a") is InstanceState.READY
    await long


@on(A)
async def test_what_is_not_loaded_cannot_be_pinned(world: World) -> None:
    with pytest.raises(ModelNotLoadedError, match="Model 'a' is not loaded"):
        world.pool.pin("a", pinned=True)
    loading = world.begin(world.pool.load("a"))
    await asyncio.sleep(1)
    world.pool.pin("a", pinned=True)
    assert (await loading).pinned


@on(replace(A, fetches_in=10.0, options={"pinned": True}), B)
async def test_a_model_that_is_being_fetched_is_pinned_at_once(world: World) -> None:
    loading = world.begin(world.pool.load("a"))
    await asyncio.sleep(1)
    for pinned in (True, False):
        world.pool.pin("a", pinned=pinned)
        status = world.pool.status("a")
        assert status
        assert (status.plan, status.pinned) == (None, pinned)
    assert not (await loading).pinned  # what was said last holds, not what its options say
    await world.use("b")


@on(replace(A, options={"evict_idle_timeout": "soon"}))
async def test_an_option_that_says_nothing_is_refused(world: World) -> None:
    with pytest.raises(LaunchError, match="option 'evict_idle_timeout' must be a number of seconds"):
        await world.use("a")


# --- a second try -----------------------------------------------------------------------------------------

BIG = replace(C, size=5)


@on(A, B, BIG, limit=-1, memory=6)
async def test_a_failed_load_is_tried_again_with_all_others_gone(world: World) -> None:
    await world.use("a")
    long = world.begin(world.use("b", 30.0))
    await asyncio.sleep(5)
    await world.use("c")
    assert long.done()
    assert world.running == ["c"]
    assert world.starts == ["a", "b", "c", "c"]


@on(A, replace(B, options={"pinned": True}), BIG, limit=-1, memory=6)
async def test_the_pinned_are_spared_also_then(world: World) -> None:
    await world.use("a")
    await world.use("b")
    await world.use("c")
    assert world.running == ["b", "c"]


@on(replace(A, options={"pinned": True}), replace(BIG, size=6), limit=-1, memory=6)
async def test_where_nobody_can_leave_there_is_no_second_try(world: World) -> None:
    await world.use("a")
    with pytest.raises(EngineExitedError):
        await world.use("c")
    assert world.starts == ["a", "c"]


@on(A, BIG, limit=-1, memory=5, swap_wait=10.0)
async def test_others_that_stay_too_long_leave_the_failure_as_it_was(world: World) -> None:
    long = world.begin(world.use("a", 60.0))
    await asyncio.sleep(5)
    with pytest.raises(EngineExitedError, match="exited with code 1 before it was ready"):
        await world.use("c")
    assert await world.use("a") == 0.0
    await long


# --- idleness ---------------------------------------------------------------------------------------------

IDLE: dict[str, JsonValue] = {"auto_evict": True, "downsize_idle_timeout": 60, "evict_idle_timeout": 300}


@on(replace(A, can_downsize=True, options=IDLE))
async def test_an_idle_engine_gives_back_memory_and_then_its_place(world: World) -> None:
    await world.use("a")
    await asyncio.sleep(60.5)
    assert world.state("a") is InstanceState.DOWNSIZING
    assert await world.use("a") == pytest.approx(0.5)  # a request waits until that is over
    await asyncio.sleep(100)
    status = world.pool.status("a")
    assert status
    assert (status.state, status.is_downsized) == (InstanceState.READY, True)
    assert await world.use("a") == 0.0
    status = world.pool.status("a")
    assert status
    assert not status.is_downsized
    await asyncio.sleep(299)
    assert world.downsized == ["/less"] * 3
    assert world.running == ["a"]
    await asyncio.sleep(2)
    assert world.state("a") is None
    assert await world.use("a") == pytest.approx(4.0)


@on(replace(A, options=IDLE), replace(B, options=IDLE | {"auto_evict": False}), limit=2)
async def test_a_busy_engine_does_not_idle_nor_does_one_that_may_stay(world: World) -> None:
    await world.use("b")
    await world.use("a", 1000)
    assert world.running == ["b", "a"]
    await asyncio.sleep(301)
    assert world.running == ["b"]
    await world.pool.load("b", {"auto_evict": True, "evict_idle_timeout": 10})
    await asyncio.sleep(11)
    assert world.running == []


# --- adoption ---------------------------------------------------------------------------------------------


@on(A, B)
async def test_an_engine_is_adopted_only_where_there_is_room(world: World) -> None:
    await world.use("a")
    found = Adoptable(model="b", port=unused_ports(1), overrides={}, digest="b")
    await world.pool.adopt(found)
    assert world.starts == ["a"]
    await asyncio.sleep(1)
    assert world.state("b") is None
