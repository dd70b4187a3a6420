"""Models make room when memory gets scarce, one after the other. On a simulated clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lemonpod.broker.ports import PortBroker
from lemonpod.contract.vocabulary import Accelerator, JsonValue
from lemonpod.engine.api import InstanceState
from lemonpod.engine.memory import Memory
from lemonpod.engine.pool import Pool
from lemonpod.engine.pressure import Reading, Relief
from lemonpod.engine.settings import EngineSettings
from lemonpod.engine.stay import Step
from lemonpod.launch.plan import TcpEndpoint
from tests import virtual_time
from tests.fakes.machine import Machine, Model
from tests.waiting import unused_ports

PORTS = 4
ON: dict[str, JsonValue] = {"auto_evict": True, "downsize_idle_timeout": 0, "evict_idle_timeout": 0}
A, B, C = (Model(name=name, loads_in=4.0, options=ON) for name in "abc")


class World:
    """A machine whose memory is as full as the test says."""

    def __init__(self, *models: Model) -> None:
        first = unused_ports(PORTS)
        machine = Machine({model.name: model for model in models})
        self.machine = machine
        self.full: float | None = 0.5
        self.looks: list[float] = []
        """When it was read."""
        self.left: list[str] = []
        machine.on_stop = lambda engine: self.left.append(engine.model.name)
        self.downsized: list[str] = []
        self.pool = Pool(
            machine,
            [machine],
            PortBroker(first, first + PORTS - 1),
            EngineSettings(watchdog=False),
            clock=asyncio.get_running_loop().time,
            downsize=self._downsize,
            memory=Memory(read=self._read),
        )

    async def _read(self, accelerators: frozenset[Accelerator]) -> Reading:
        self.looks.append(asyncio.get_running_loop().time())
        return {} if self.full is None else dict.fromkeys(accelerators, self.full)

    async def _downsize(self, endpoint: TcpEndpoint, path: str) -> None:
        self.downsized.append(path)
        await asyncio.sleep(1.0)

    async def use(self, model: str, seconds: float = 1.0) -> None:
        async with self.pool.lease(model):
            await asyncio.sleep(seconds)

    def watches(self) -> int:
        """How many tasks look at memory."""
        return sum(task.get_name() == "memory watch" for task in asyncio.all_tasks())

    def state(self, model: str) -> InstanceState | None:
        status = self.pool.status(model)
        return status.state if status else None


Scene = Callable[[World], Coroutine[Any, Any, None]]


def on(*models: Model) -> Callable[[Scene], Callable[[], None]]:
    """Make a test of a scene."""

    def decorate(scene: Scene) -> Callable[[], None]:
        async def play() -> None:
            world = World(*models)
            try:
                await scene(world)
            finally:
                await world.pool.aclose()
            assert asyncio.all_tasks() == {asyncio.current_task()}

        return lambda: virtual_time.run(play())

    return decorate


def changed(model: Model, **options: JsonValue) -> Model:
    return Model(name=model.name, loads_in=model.loads_in, options={**model.options, **options})


@on(A, B, C)
async def test_one_at_a_time_the_longest_unused_first(world: World) -> None:
    for model in "abc":
        await world.use(model)
    world.full = 0.95
    await asyncio.sleep(3)
    assert world.left == ["a"]
    await asyncio.sleep(4)
    assert world.left == ["a"], "memory had no time to fall"
    await asyncio.sleep(3)
    assert world.left == ["a", "b"]
    world.full = 0.5
    await asyncio.sleep(60)
    assert world.left == ["a", "b"]
    assert world.state("c") is InstanceState.READY


@on(A, B)
async def test_memory_is_looked_at_every_two_seconds_while_somebody_could_leave(world: World) -> None:
    await world.use("a")
    begun = len(world.looks)
    await asyncio.sleep(20)
    assert len(world.looks) - begun == 10
    await world.use("a", 20)
    assert len(world.looks) - begun == 10
    await world.pool.unload("a")
    await asyncio.sleep(20)
    assert len(world.looks) - begun == 10


@on(changed(A, auto_evict=False), changed(B, pinned=True))
async def test_there_is_one_task_as_long_as_a_loaded_model_may_have_to_leave(world: World) -> None:
    await world.use("a")
    await world.use("b")
    assert world.watches() == 0
    world.pool.pin("b", pinned=False)
    assert world.watches() == 1
    world.pool.pin("b", pinned=True)
    await asyncio.sleep(0)
    assert world.watches() == 0
    await world.pool.load("a", {"auto_evict": True})
    world.pool.pin("b", pinned=False)
    assert world.watches() == 1
    await world.pool.unload("a")
    assert world.watches() == 1
    await world.pool.unload("b")
    await asyncio.sleep(0)
    assert world.watches() == 0


@on(A, changed(B, pinned=True), changed(C, auto_evict=False))
async def test_the_busy_the_pinned_and_those_that_may_stay_never_leave(world: World) -> None:
    await world.use("b")
    await world.use("c")
    world.full = 1.0
    await world.use("a", 60)
    assert world.left == []
    await asyncio.sleep(3)
    assert world.left == ["a"]
    await asyncio.sleep(60)
    assert world.left == ["a"]


@on(A)
async def test_a_client_that_asks_again_at_once_finds_its_model(world: World) -> None:
    world.full = 1.0
    for _ in range(200):
        await world.use("a", 0.9)
        await asyncio.sleep(0.2)
    assert world.left == []


@on(A)
async def test_where_nobody_knows_nobody_leaves_and_a_line_says_so(world: World) -> None:
    world.full = None
    log = logging.getLogger("lemonpod.engine.memory")
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        await world.use("a")
        await asyncio.sleep(60)
    finally:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)
    assert world.left == []
    assert said == ["how full memory is cannot be told for cpu: no model makes room for it"]


@on(Model(name="a", can_downsize=True, options=ON), B)
async def test_memory_first_then_the_place(world: World) -> None:
    await world.use("a")
    world.full = 0.92
    await asyncio.sleep(1.5)
    assert world.state("a") is InstanceState.DOWNSIZING
    await asyncio.sleep(1)
    status = world.pool.status("a")
    assert status
    assert status.is_downsized
    assert (world.downsized, world.left) == (["/less"], [])
    await asyncio.sleep(8)
    assert (world.downsized, world.left) == (["/less"], ["a"])
    await world.use("a")
    world.full = 0.1
    await asyncio.sleep(60)
    assert world.state("a") is InstanceState.READY


@on(A, B)
async def test_after_an_engine_has_gone_memory_has_time_to_fall(world: World) -> None:
    await world.use("a")
    await world.use("b")
    world.full = 0.95
    await world.pool.unload("a")
    gone = asyncio.get_running_loop().time()
    await asyncio.sleep(4.9)
    assert world.left == ["a"]
    await asyncio.sleep(2.5)
    assert world.left == ["a", "b"]
    assert all(look < gone or look >= gone + 5.0 for look in world.looks)


@on(A, B)
async def test_a_simulated_reading_leads_to_one_step(world: World) -> None:
    await world.use("a")
    await world.use("b")
    assert await world.pool.relieve(0.89) is None
    assert await world.pool.relieve(-1) is None
    done = await asyncio.gather(*(world.pool.relieve(0.95) for _ in range(3)))
    assert done == [Relief("a", Step.UNLOAD, 0.95), None, None]
    assert world.state("a") is InstanceState.STOPPING
    await asyncio.sleep(1)
    assert await world.pool.relieve(0.95) == Relief("b", Step.UNLOAD, 0.95)
    assert await world.pool.relieve(0.95) is None


@on(changed(A, evict_weight_factor=1000.0), B)
async def test_what_matters_more_stays_longer(world: World) -> None:
    await world.use("a")
    await world.use("b")
    world.full = 1.0
    await asyncio.sleep(3)
    assert world.left == ["b"]


@on(A)
async def test_a_request_that_comes_while_a_model_leaves_is_served(world: World) -> None:
    await world.use("a")
    assert await world.pool.relieve(1.0) is not None
    await world.use("a")
    assert world.left == ["a"]


@pytest.mark.parametrize("share", [0.949, 0.95])
def test_the_reason_is_told(share: float, caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        world = World(A)
        await world.use("a")
        await world.pool.relieve(share)
        await world.pool.aclose()

    with caplog.at_level(logging.INFO):
        virtual_time.run(play())
    assert "a has ended: a made room: 95 % of the memory was in use" in caplog.messages
