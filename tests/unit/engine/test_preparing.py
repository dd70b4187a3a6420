"""What comes before a start, told of as it goes on; and engines that run before there is a server."""

from __future__ import annotations

import asyncio
import socket
from contextlib import aclosing

import pytest

from lemonpod.broker.ports import PortBroker
from lemonpod.engine.api import Adoptable, InstanceState, Progress, Report
from lemonpod.engine.pool import Pool
from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import CheckpointNotFoundError, EngineStoppedError, NoPortError, PullError
from tests.fakes.engine import FakeDriver, FakePlanner
from tests.waiting import until

FETCHING = Progress(text="fetching m.gguf")
PULLING = Progress(text="pulling image", done_bytes=1, total_bytes=4)


@pytest.fixture
async def gate(driver: FakeDriver) -> asyncio.Event:
    """Preparations end when it is set."""
    driver.habits.preparing = (PULLING,)
    driver.habits.prepared = asyncio.Event()
    return driver.habits.prepared


async def test_progress_is_told_until_the_start(pool: Pool, gate: asyncio.Event) -> None:
    loading = asyncio.create_task(pool.load("m"))
    await until(lambda: (status := pool.status("m")) is not None and status.progress == PULLING)
    status = pool.status("m")
    assert status is not None
    assert (status.state, status.started_at) == (InstanceState.STARTING, None)
    gate.set()
    assert (await loading).progress is None


async def test_the_port_is_held_while_an_engine_is_prepared(
    pool: Pool, gate: asyncio.Event, first: int
) -> None:
    loading = asyncio.create_task(pool.load("m"))
    await until(lambda: (status := pool.status("m")) is not None and status.progress is not None)
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", first))
    gate.set()
    await loading


async def test_the_clock_of_the_start_does_not_run_yet(
    pool: Pool, gate: asyncio.Event, planner: FakePlanner, driver: FakeDriver
) -> None:
    loading = asyncio.create_task(pool.load("m"))
    await until(lambda: (status := pool.status("m")) is not None and status.progress is not None)
    assert driver.engines[0].probes == 0
    gate.set()
    await loading


async def test_a_preparation_that_nobody_waits_for_is_ended(
    pool: Pool, gate: asyncio.Event, driver: FakeDriver
) -> None:
    loading = asyncio.create_task(pool.load("m"))
    await until(lambda: (status := pool.status("m")) is not None and status.progress is not None)
    loading.cancel()
    await until(lambda: pool.status("m") is None)
    assert not gate.is_set()
    assert driver.running == []


async def test_an_unload_ends_a_preparation(pool: Pool, gate: asyncio.Event) -> None:
    loading = asyncio.create_task(pool.load("m"))
    await until(lambda: (status := pool.status("m")) is not None and status.progress is not None)
    await pool.unload("m")
    with pytest.raises(EngineStoppedError, match="m was unloaded"):
        await loading


async def test_a_preparation_that_fails_is_why_the_load_failed(pool: Pool, driver: FakeDriver) -> None:
    driver.habits.preparing = (PULLING,)
    driver.habits.prepare_error = PullError("image: denied")
    with pytest.raises(PullError, match="denied"):
        await pool.load("m")
    await until(lambda: (status := pool.status("m")) is None or status.state is InstanceState.FAILED)
    status = pool.status("m")
    assert status is not None
    assert (status.state, status.failure, status.progress) == (InstanceState.FAILED, "image: denied", None)


# --- adoption -----------------------------------------------------------------------------------------------


def found(port: int, *, digest: str | None = None, model: str = "m") -> Adoptable:
    return Adoptable(model=model, port=port, overrides={}, digest=digest or "")


async def test_an_engine_of_the_same_plan_is_gone_on_with(
    pool: Pool, driver: FakeDriver, planner: FakePlanner, first: int
) -> None:
    port = first + 7
    digest = (await planner.plan("m", {}, port)).digest
    with socket.create_server(("127.0.0.1", port)):  # the engine listens already
        await pool.adopt(found(port, digest=digest))
        status = await pool.load("m")
    assert status.plan is not None
    assert status.plan.endpoint.port == port
    assert len(driver.engines) == 1


async def test_an_engine_of_another_plan_is_left_alone(pool: Pool, driver: FakeDriver, first: int) -> None:
    await pool.adopt(found(first, digest="another"))
    assert driver.engines == []
    await until(lambda: pool.status("m") is None)


async def test_a_model_that_is_no_more_is_left_alone(
    pool: Pool, driver: FakeDriver, planner: FakePlanner, first: int
) -> None:
    await pool.adopt(found(first, model="unknown"))
    assert driver.engines == []
    await until(lambda: pool.statuses() == [])


async def test_what_is_loaded_already_is_not_replaced(pool: Pool, driver: FakeDriver, first: int) -> None:
    await pool.load("m")
    await pool.adopt(found(first + 3))
    assert len(driver.engines) == 1


def test_a_held_port_is_leased_once(first: int) -> None:
    ports = PortBroker(first, first + 3)
    with ports.lease_held(first), pytest.raises(NoPortError, match="leased to another engine"):
        ports.lease_held(first)
    ports.lease_held(first).release()
    assert ports.leased == frozenset()


async def test_files_are_fetched_before_anybody_makes_room(
    planner: FakePlanner, driver: FakeDriver, ports: PortBroker
) -> None:
    """A download may take hours: the model that is loaded meanwhile stays until it is over."""
    there = asyncio.Event()

    async def fetch(model: str, report: Report) -> None:
        if model == "b":
            report(FETCHING)
            await there.wait()

    async with aclosing(Pool(planner, [driver], ports, EngineSettings(), fetch=fetch, max_loaded=1)) as pool:
        await pool.load("a")
        loading = asyncio.create_task(pool.load("b"))
        await until(lambda: (status := pool.status("b")) is not None and status.progress == FETCHING)
        assert [engine.plan.model for engine in driver.engines] == ["a"]
        a = pool.status("a")
        assert a is not None
        assert a.state is InstanceState.READY
        there.set()
        await loading
        assert pool.status("a") is None


async def test_a_fetch_that_fails_is_told_and_may_be_tried_again_at_once(
    planner: FakePlanner, driver: FakeDriver, ports: PortBroker
) -> None:
    failures = [CheckpointNotFoundError("no such file")]

    async def fetch(model: str, report: Report) -> None:
        report(FETCHING)
        if failures:
            raise failures.pop()

    async with aclosing(Pool(planner, [driver], ports, EngineSettings(), fetch=fetch)) as pool:
        first, second = await asyncio.gather(pool.load("m"), pool.load("m"), return_exceptions=True)
        assert str(first) == str(second) == "no such file"
        assert (await pool.load("m")).state is InstanceState.READY
        assert len(driver.engines) == 1
