"""What every driver must do, whatever runs its engines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lemonpod.drivers.container import ContainerDriver
from lemonpod.drivers.process import ProcessDriver
from lemonpod.engine.api import Driver, Engine, EngineState, ExitStatus
from lemonpod.engine.probe import until_ready
from lemonpod.errors import EngineExitedError, SpawnError
from lemonpod.launch.plan import LaunchPlan
from tests.engines.conftest import SETTINGS, fake_plan, shell_plan
from tests.engines.containers import container_driver, container_plan, serving_plan
from tests.factories import make_container_plan, make_plan
from tests.fakes.engine import FakeDriver, FakeHabits
from tests.fakes.runtime import FakeRuntimes
from tests.lab.engine import ContainerEngine
from tests.lab.lab import KINDS
from tests.waiting import unused_port


@dataclass(frozen=True)
class Kind:
    """A driver, and plans for it whose engines all print `engine started` first."""

    driver: Driver
    serving: Callable[[], LaunchPlan]
    dying: Callable[[], LaunchPlan]
    """Ends by itself with code 3."""
    unstartable: Callable[[], LaunchPlan]


def process_kind(folder: Path) -> Kind:
    return Kind(
        driver=ProcessDriver(folder / "state", {"PATH": "/usr/bin:/bin"}, SETTINGS),
        serving=lambda: fake_plan("--say", "engine started"),
        dying=lambda: shell_plan("echo engine started; exit 3"),
        unstartable=lambda: make_plan("/no/such/engine", port=1),
    )


def fake_kind(folder: Path) -> Kind:
    driver = FakeDriver(
        special={
            "dying": FakeHabits(dies_at_start=3),
            "unstartable": FakeHabits(spawn_error=SpawnError("cannot start fake")),
        }
    )

    def plan(model: str) -> Callable[[], LaunchPlan]:
        return lambda: replace(make_plan("fake", port=unused_port()), model=model)

    return Kind(driver, serving=plan("serving"), dying=plan("dying"), unstartable=plan("unstartable"))


def fake_runtime_kind(folder: Path) -> Kind:
    def serving() -> LaunchPlan:
        port = unused_port()
        return make_container_plan("say", "engine started", "serve", str(port), port=port)

    return Kind(
        driver=ContainerDriver(folder / "state", {}, SETTINGS, runtimes=FakeRuntimes()),
        serving=serving,
        dying=lambda: make_container_plan("say", "engine started", "exit", "3", port=unused_port()),
        unstartable=lambda: make_container_plan("/no/such/engine", port=1),
    )


def lab_kind(folder: Path, engine: ContainerEngine) -> Kind:
    return Kind(
        driver=container_driver(engine, folder / "state"),
        serving=lambda: serving_plan(engine),
        dying=lambda: container_plan(engine, "sh", "-c", "echo engine started; exit 3"),
        unstartable=lambda: container_plan(engine, "/no/such/engine"),
    )


ALWAYS = {"process": process_kind, "fake": fake_kind, "fake-runtime": fake_runtime_kind}


@pytest.fixture(params=[*ALWAYS, *KINDS])
def kind_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def lab_engine(request: pytest.FixtureRequest, kind_name: str) -> Iterator[ContainerEngine | None]:
    """A real container engine, if the kind is one; its containers are gone after the test."""
    if kind_name in ALWAYS:
        yield None
        return
    engine = request.getfixturevalue("lab").engine(kind_name)
    yield engine
    left = engine.containers()
    engine.remove_test_containers()
    assert left == []


@pytest.fixture
async def kind(kind_name: str, lab_engine: ContainerEngine | None, tmp_path: Path) -> AsyncIterator[Kind]:
    kind = ALWAYS[kind_name](tmp_path) if lab_engine is None else lab_kind(tmp_path, lab_engine)
    yield kind
    await kind.driver.aclose()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def texts(engine: Engine, *, tail: int | None = None, follow: bool = False) -> list[str]:
    return [line.text async for line in engine.logs(tail=tail, follow=follow)]


async def test_creating_does_nothing(kind: Kind) -> None:
    plan = kind.serving()
    assert kind.driver.accepts(plan)
    engine = kind.driver.create(plan)
    assert engine.plan is plan
    assert (await engine.inspect()).state is EngineState.CREATED
    assert not await engine.probe()
    assert await texts(engine) == []
    assert (await engine.stats()).memory_bytes is None


async def test_a_life(kind: Kind) -> None:
    engine = kind.driver.create(kind.serving())
    await engine.start()
    await until_ready(engine)
    status = await engine.inspect()
    assert status.state is EngineState.RUNNING
    assert status.pid
    assert status.started_at
    assert ((await engine.stats()).memory_bytes or 0) > 0
    assert isinstance(await engine.diagnose(), str)
    end = await engine.stop(grace=5.0)
    assert end.wanted
    after = await engine.inspect()
    assert (after.state, after.exit) == (EngineState.EXITED, end)
    assert await engine.stats() == type(await engine.stats())()


async def test_stopping_is_idempotent_and_shared(kind: Kind) -> None:
    engine = kind.driver.create(kind.serving())
    await engine.start()
    waiting = [asyncio.create_task(engine.wait()) for _ in range(5)]
    ends = await asyncio.gather(*(engine.stop(grace=5.0) for _ in range(5)))
    assert {*ends, await engine.stop(grace=5.0), await engine.stop(grace=0.0)} == {ends[0]}
    assert set(await asyncio.gather(*waiting)) == {ends[0]}


async def test_what_never_started_can_be_stopped(kind: Kind) -> None:
    engine = kind.driver.create(kind.serving())
    assert await engine.stop(grace=5.0) == ExitStatus(wanted=True)


async def test_a_waiter_that_leaves_changes_nothing(kind: Kind) -> None:
    engine = kind.driver.create(kind.serving())
    await engine.start()
    leaving, staying = (asyncio.create_task(engine.wait()) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    assert (await engine.inspect()).state is EngineState.RUNNING
    end = await engine.stop(grace=5.0)
    assert await staying == end


async def test_an_end_of_its_own(kind: Kind) -> None:
    engine = kind.driver.create(kind.dying())
    await engine.start()
    end = await engine.wait()
    assert (end.code, end.signal, end.wanted) == (3, None, False)
    with pytest.raises(EngineExitedError, match="exited with code 3") as caught:
        await engine.probe()
    assert caught.value.log_tail == ("engine started",)
    with pytest.raises(EngineExitedError, match="exited with code 3 before it was ready"):
        await until_ready(engine)
    assert await engine.stop(grace=5.0) == end
    assert not (await engine.wait()).wanted


async def test_what_cannot_start_leaves_nothing(kind: Kind) -> None:
    engine = kind.driver.create(kind.unstartable())
    with pytest.raises(SpawnError):
        await engine.start()
    assert (await engine.inspect()).state is EngineState.CREATED
    await engine.stop(grace=5.0)


async def test_a_cancelled_start_leaves_nothing(kind: Kind) -> None:
    engine = kind.driver.create(kind.serving())
    starting = asyncio.create_task(engine.start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert (await engine.inspect()).state in (EngineState.CREATED, EngineState.EXITED)


async def test_logs_outlive_the_engine_and_followers_end_with_it(kind: Kind) -> None:
    engine = kind.driver.create(kind.serving())
    following = asyncio.create_task(texts(engine, follow=True))
    await engine.start()
    await until_ready(engine)
    await engine.stop(grace=5.0)
    lines = await following
    assert lines[0] == "engine started"
    assert await texts(engine) == lines
    assert await texts(engine, tail=1) == lines[-1:] == list(engine.log_tail(1))


async def test_engines_know_nothing_of_each_other(kind: Kind) -> None:
    first, second = (kind.driver.create(kind.serving()) for _ in range(2))
    await asyncio.gather(first.start(), second.start())
    await asyncio.gather(until_ready(first), until_ready(second))
    await first.stop(grace=5.0)
    assert await second.probe()
    await second.stop(grace=5.0)


async def test_there_is_nothing_to_reclaim_on_a_clean_machine(kind: Kind) -> None:
    assert list(await kind.driver.reclaim()) == []
