"""Loads that are shared, left, refused, crashed, cooled down and unloaded, on a fake driver."""

# Long because the life of a load has many ends, and each is told against the same pool.

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from lemonpod.broker.ports import PortBroker
from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.vocabulary import ProbeType
from lemonpod.engine.api import ExitStatus, InstanceState, InstanceStatus
from lemonpod.engine.pool import Pool
from lemonpod.errors import (
    CoolingDownError,
    EngineError,
    EngineExitedError,
    EngineStoppedError,
    EngineUnhealthyError,
    LaunchError,
    ModelNotFoundError,
    ModelNotLoadedError,
    NoPortError,
    SpawnError,
    StartTimeoutError,
)
from tests.fakes.engine import FakeDriver, FakeHabits, FakePlanner
from tests.unit.engine.conftest import Clock, MakePool
from tests.waiting import until


def state(pool: Pool, model: str = "m") -> InstanceState | None:
    status = pool.status(model)
    return status.state if status else None


async def gone(task: asyncio.Task[Any]) -> None:
    """The client leaves."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# --- loads ------------------------------------------------------------------------------------------------


async def test_a_load_ends_with_a_ready_engine(pool: Pool, driver: FakeDriver, first: int) -> None:
    status = await pool.load("m")
    assert (status.model, status.state, status.pid, status.in_flight) == ("m", InstanceState.READY, 1, 0)
    assert status.plan is driver.engines[0].plan
    assert status.plan.endpoint.port == first
    assert status.ready_at
    assert (status.failure, status.retry_after) == (None, None)


async def test_many_who_wait_share_one_start(pool: Pool, driver: FakeDriver, first: int) -> None:  # L07
    statuses = await asyncio.gather(*(pool.load("m") for _ in range(20)))
    assert len(driver.engines) == 1
    assert {status.plan.endpoint.port for status in statuses if status.plan} == {first}


async def test_twenty_models_have_twenty_ports(pool: Pool, driver: FakeDriver, first: int) -> None:  # L07
    await asyncio.gather(*(pool.load(f"m{n}") for n in range(20)))
    assert len({engine.plan.endpoint.port for engine in driver.engines}) == 20
    with pytest.raises(NoPortError, match=f"from {first} to {first + 19}: 20 leased"):
        await pool.load("one more")
    assert pool.status("one more") is None


async def test_a_start_that_the_last_waiter_has_left_is_ended(pool: Pool, driver: FakeDriver) -> None:
    driver.habits.answers = False
    first, second = (asyncio.create_task(pool.load("m")) for _ in range(2))
    await until(lambda: driver.running)
    await gone(first)
    await asyncio.sleep(0.05)
    assert state(pool) is InstanceState.STARTING
    await gone(second)
    await until(lambda: state(pool) is None)
    assert not driver.running


async def test_a_quick_retry_finds_the_start_still_going_on(make_pool: MakePool, driver: FakeDriver) -> None:
    pool = make_pool(abandon_grace=0.2)
    driver.habits.answers = False
    first = asyncio.create_task(pool.load("m"))
    await until(lambda: driver.running)
    await gone(first)
    driver.habits.answers = True
    assert (await pool.load("m")).state is InstanceState.READY
    await asyncio.sleep(0.3)
    assert state(pool) is InstanceState.READY
    assert len(driver.engines) == 1


async def test_a_request_that_meets_an_abandoned_start_gets_a_new_one(pool: Pool, driver: FakeDriver) -> None:
    driver.habits.answers = False
    driver.habits.stubborn = True
    first = asyncio.create_task(pool.load("m"))
    await until(lambda: driver.running)
    await gone(first)
    await until(lambda: state(pool) is InstanceState.STOPPING)
    second = asyncio.create_task(pool.load("m"))
    await asyncio.sleep(0)
    driver.habits.answers = True
    await driver.engines[0].stop(grace=0.0)
    assert (await second).state is InstanceState.READY
    assert len(driver.engines) == 2
    driver.habits.stubborn = False


async def test_a_failing_planner_leaves_nothing(
    pool: Pool, planner: FakePlanner, driver: FakeDriver, ports: PortBroker
) -> None:
    planner.error = LaunchError("no block for this system")
    for _ in range(3):
        with pytest.raises(LaunchError, match="no block"):
            await pool.load("m")
    assert (pool.statuses(), driver.engines, ports.leased) == ([], [], frozenset())


async def test_a_planner_with_a_bug_is_told_apart(pool: Pool, planner: FakePlanner) -> None:
    planner.error = ZeroDivisionError("oops")  # type: ignore[assignment]
    with pytest.raises(EngineError, match="internal error: ZeroDivisionError"):
        await pool.load("m")
    assert pool.statuses() == []


async def test_everybody_who_waited_hears_why_it_failed_in_an_error_of_his_own(
    pool: Pool, driver: FakeDriver
) -> None:
    driver.habits.dies_at_start = 7
    failures = await asyncio.gather(*(pool.load("m") for _ in range(3)), return_exceptions=True)
    for failure in failures:
        assert isinstance(failure, EngineExitedError)
        assert failure.exit_code == 7
        assert failure.log_tail == ("engine started",)
        assert "the test-engine engine of m exited with code 7 before it was ready" in str(failure)
    assert len({id(failure) for failure in failures}) == 3


async def test_a_start_timeout_is_a_failure(pool: Pool, driver: FakeDriver, planner: FakePlanner) -> None:
    planner.probe = HealthProbe(timeout=0.05, interval=0.005)
    driver.habits.answers = False
    with pytest.raises(StartTimeoutError, match=r"not ready after 0\.05 s: the fake was told to say no"):
        await pool.load("m")
    await until(lambda: state(pool) is InstanceState.FAILED)
    with pytest.raises(CoolingDownError):
        await pool.load("m")


# --- options ----------------------------------------------------------------------------------------------


async def test_equal_options_change_nothing_and_others_reload(pool: Pool, driver: FakeDriver) -> None:
    await pool.load("m", {"ctx_size": 1})
    await pool.load("m", {"ctx_size": 1})
    await pool.load("m")
    await pool.load("m", {"ctx_size": 1, "threads": None})  # other words for the same plan
    assert len(driver.engines) == 1
    status = await pool.load("m", {"ctx_size": 2})
    assert status.plan is not None
    assert status.plan.options == {"ctx_size": 2}
    assert [engine.running for engine in driver.engines] == [False, True]


async def test_options_that_cannot_be_planned_leave_the_running_engine_alone(
    pool: Pool, planner: FakePlanner
) -> None:
    await pool.load("m")
    planner.error = LaunchError("reserved")
    with pytest.raises(LaunchError):
        await pool.load("m", {"custom_args": "--port 1"})
    assert state(pool) is InstanceState.READY


async def test_a_load_with_other_options_waits_for_the_start_under_way(
    pool: Pool, driver: FakeDriver
) -> None:
    first, second = await asyncio.gather(pool.load("m", {"n": 1}), pool.load("m", {"n": 2}))
    assert first.state is second.state is InstanceState.READY
    assert [engine.plan.options for engine in driver.engines] == [{"n": 1}, {"n": 2}]


# --- requests and unloads ---------------------------------------------------------------------------------


async def test_an_unload_waits_for_requests_and_new_ones_start_anew(
    pool: Pool, driver: FakeDriver
) -> None:  # L23
    async with pool.lease("m") as lease:
        assert pool.statuses()[0].in_flight == 1
        unloading = asyncio.create_task(pool.unload("m"))
        await until(lambda: state(pool) is InstanceState.STOPPING)
        late = asyncio.create_task(pool.load("m"))
        await asyncio.sleep(0.02)
        assert driver.engines[0].running
        assert not lease.cut.is_set()
    await unloading
    assert (await late).state is InstanceState.READY
    assert [engine.running for engine in driver.engines] == [False, True]


async def test_requests_and_unloads_in_a_tight_loop_never_meet_a_dead_engine(
    pool: Pool, driver: FakeDriver
) -> None:  # L23
    async def request(model: str) -> None:
        for _ in range(50):
            async with pool.lease(model) as lease:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert lease.plan in [engine.plan for engine in driver.running]

    async def unload() -> None:
        while True:  # a start would tell its waiters that it was unloaded: that is another test
            if state(pool, "a") is InstanceState.READY:
                await pool.unload("a")
            await asyncio.sleep(0)

    unloading = asyncio.create_task(unload())
    await asyncio.gather(request("a"), request("b"), request("a"))
    await gone(unloading)
    assert len(driver.engines) > 10


async def test_requests_that_outlast_the_drain_timeout_are_cut(
    make_pool: MakePool, driver: FakeDriver
) -> None:  # L03
    pool = make_pool(drain_timeout=0.05)
    async with pool.lease("m") as lease:
        await pool.unload("m")
        assert lease.cut.is_set()
        why = await lease.why()
    assert isinstance(why, EngineStoppedError)
    assert str(why) == "m was unloaded"
    assert driver.running == []


async def test_an_unload_that_nobody_waits_for_any_more_goes_on(pool: Pool, driver: FakeDriver) -> None:
    await pool.load("m")
    unloading = asyncio.create_task(pool.unload("m"))
    await asyncio.sleep(0)
    await gone(unloading)
    await until(lambda: pool.status("m") is None)
    assert driver.running == []


async def test_unloading_a_start_tells_who_waits(pool: Pool, driver: FakeDriver) -> None:
    driver.habits.answers = False
    waiting = asyncio.create_task(pool.load("m"))
    await until(lambda: driver.running)
    await pool.unload("m")
    with pytest.raises(EngineStoppedError, match="m was unloaded"):
        await waiting
    assert (driver.running, pool.statuses()) == ([], [])


async def test_unloading_while_the_planner_works(pool: Pool, planner: FakePlanner, ports: PortBroker) -> None:
    planner.gate.clear()
    waiting = asyncio.create_task(pool.load("m"))
    await until(lambda: planner.calls)
    await pool.unload("m")
    with pytest.raises(EngineStoppedError):
        await waiting
    assert ports.leased == frozenset()


async def test_what_is_not_loaded_cannot_be_unloaded(pool: Pool) -> None:
    for call in (pool.unload("m"), pool.stats("m")):
        with pytest.raises(ModelNotLoadedError, match="Model 'm' is not loaded"):
            await call
    with pytest.raises(ModelNotLoadedError):
        pool.logs("m")
    await pool.unload_all()


async def test_unload_all_ends_all_at_the_same_time(pool: Pool, driver: FakeDriver) -> None:
    await asyncio.gather(*(pool.load(name) for name in "abc"))
    await pool.unload_all()
    assert (driver.running, pool.statuses()) == ([], [])


async def test_a_stubborn_engine_holds_up_nobody_else(pool: Pool, driver: FakeDriver) -> None:  # L03
    driver.special["stubborn"] = FakeHabits(stubborn=True)
    await pool.load("stubborn")
    unloading = asyncio.create_task(pool.unload("stubborn"))
    await until(lambda: state(pool, "stubborn") is InstanceState.STOPPING)
    assert (await asyncio.wait_for(pool.load("m"), 5)).state is InstanceState.READY
    assert not unloading.done()
    await driver.engines[0].stop(grace=0.0)
    await unloading


async def test_an_engine_that_cannot_be_ended_is_named(
    pool: Pool, driver: FakeDriver, ports: PortBroker
) -> None:
    driver.habits.immortal = True
    await pool.load("m")
    with pytest.raises(EngineError, match=r"cannot be ended: fake \(pid 1\)"):
        await pool.unload("m")
    status = pool.status("m")
    assert status
    assert status.state is InstanceState.FAILED
    assert status.failure == "the engine of m cannot be ended: fake (pid 1)"
    assert status.retry_after is None
    assert ports.leased == frozenset()


async def test_the_most_recently_used_comes_first(pool: Pool, clock: Clock) -> None:
    for model in "abc":
        clock.now += 1
        await pool.load(model)
    clock.now += 1
    async with pool.lease("b"):
        assert [status.model for status in pool.statuses()] == ["b", "c", "a"]
    assert (await pool.stats("a")).memory_bytes == 1


# --- crashes ----------------------------------------------------------------------------------------------


async def crash(pool: Pool, driver: FakeDriver, *, code: int = 9) -> InstanceStatus:
    """The running engine ends by itself, and that is noticed with no request going on."""
    driver.running[0].die(code)
    await until(lambda: state(pool) is InstanceState.FAILED)
    status = pool.status("m")
    assert status
    return status


async def test_a_crash_is_noticed_and_told(pool: Pool, driver: FakeDriver) -> None:
    await pool.load("m")
    status = await crash(pool, driver)
    assert status.failure == "the test-engine engine of m exited with code 9\nengine started"
    assert status.retry_after == 2.0
    assert [line.text async for line in pool.logs("m")] == ["engine started"]
    with pytest.raises(CoolingDownError) as caught:
        await pool.load("m")
    assert caught.value.retry_after == 2.0
    assert caught.value.message == (
        "m failed once and may start again in 2.0 s: the test-engine engine of m exited with code 9"
    )
    assert state(pool) is InstanceState.FAILED
    assert len(driver.engines) == 1


async def test_a_request_in_flight_learns_of_the_crash(pool: Pool, driver: FakeDriver) -> None:
    async with pool.lease("m") as lease:
        asking = asyncio.create_task(lease.why())
        await asyncio.sleep(0)
        driver.engines[0].die(3)
        why = await asking
    assert isinstance(why, EngineExitedError)
    assert why.exit_code == 3
    async with AsyncExitStack() as stack:
        await pool.unload("m")
        lease = await stack.enter_async_context(pool.lease("m"))
        assert await lease.why() is None


async def test_the_rest_between_starts_doubles_up_to_its_maximum(
    pool: Pool, driver: FakeDriver, clock: Clock
) -> None:
    rests = []
    driver.habits.dies_at_start = 1
    for _ in range(7):
        with pytest.raises(EngineExitedError):
            await pool.load("m")
        await until(lambda: state(pool) is InstanceState.FAILED)
        status = pool.status("m")
        assert status
        assert status.retry_after
        rests.append(status.retry_after)
        clock.now += status.retry_after
    assert rests == [2, 4, 8, 16, 32, 60, 60]


async def test_stable_for_long_enough_counts_anew(pool: Pool, driver: FakeDriver, clock: Clock) -> None:
    rests = []
    for ready_for in (1.0, 1.0, 60.0):
        await pool.load("m")
        clock.now += ready_for
        rest = (await crash(pool, driver)).retry_after
        assert rest
        rests.append(rest)
        clock.now += rest
    assert rests == [2, 4, 2]


async def test_a_changed_manifest_may_start_at_once(
    pool: Pool, driver: FakeDriver, planner: FakePlanner
) -> None:
    await pool.load("m")
    await crash(pool, driver)
    planner.edition += 1
    assert (await pool.load("m")).state is InstanceState.READY


async def test_an_unload_forgives(pool: Pool, driver: FakeDriver) -> None:
    await pool.load("m")
    await crash(pool, driver)
    await pool.unload("m")
    assert pool.statuses() == []
    assert (await pool.load("m")).state is InstanceState.READY
    assert (await crash(pool, driver)).retry_after == 2.0


async def test_a_program_that_cannot_be_started_has_no_rest(pool: Pool, driver: FakeDriver) -> None:
    driver.habits.spawn_error = SpawnError("cannot start engine: not found")
    for _ in range(2):
        with pytest.raises(SpawnError):
            await pool.load("m")
    await until(lambda: state(pool) is InstanceState.FAILED)
    status = pool.status("m")
    assert status
    assert (status.state, status.failure, status.retry_after) == (
        InstanceState.FAILED,
        "cannot start engine: not found",
        None,
    )
    driver.habits.spawn_error = None
    assert (await pool.load("m")).state is InstanceState.READY
    assert [status.state for status in pool.statuses()] == [InstanceState.READY]


async def test_a_model_that_is_no_longer_registered_leaves_no_record(
    pool: Pool, driver: FakeDriver, planner: FakePlanner
) -> None:
    await pool.load("m")
    await crash(pool, driver)
    planner.error = ModelNotFoundError("gone", model="m")
    with pytest.raises(ModelNotFoundError):
        await pool.load("m")
    assert pool.statuses() == []


async def test_two_hundred_crashes_cost_no_port(
    pool: Pool, driver: FakeDriver, ports: PortBroker, clock: Clock
) -> None:  # L07
    driver.habits.dies_at_start = 1
    for _ in range(200):
        with pytest.raises(EngineExitedError):
            await pool.load("m")
        await until(lambda: state(pool) is InstanceState.FAILED)
        clock.now += 60
    await until(lambda: state(pool) is InstanceState.FAILED)
    assert ports.leased == frozenset()


async def test_an_exit_that_we_wanted_is_no_crash(pool: Pool, driver: FakeDriver) -> None:  # L15
    await pool.load("m")
    await pool.unload("m")
    assert (await driver.engines[0].wait()).wanted
    assert pool.statuses() == []


# --- the watchdog -----------------------------------------------------------------------------------------

WATCHED = {"watchdog": True, "watchdog_grace": 0.0, "watchdog_interval": 0.01, "abandon_grace": 0.02}


async def test_an_idle_engine_that_no_longer_answers_is_ended(
    make_pool: MakePool, driver: FakeDriver
) -> None:
    pool = make_pool(**WATCHED)
    await pool.load("m")
    driver.habits.answers = False
    await until(lambda: state(pool) is InstanceState.FAILED)
    status = pool.status("m")
    assert status
    assert status.failure
    assert status.failure.startswith(
        "the test-engine engine of m was idle and did not answer 3 times in a row: the fake was told"
    )
    assert driver.running == []
    with pytest.raises(CoolingDownError):
        await pool.load("m")


async def test_a_busy_engine_is_spared(make_pool: MakePool, driver: FakeDriver) -> None:
    pool = make_pool(**WATCHED)
    async with pool.lease("m") as lease:
        driver.habits.answers = False
        before = driver.engines[0].probes
        await asyncio.sleep(0.1)
        assert driver.engines[0].probes <= before + 1
        assert driver.running
        assert await lease.why() is None
    await until(lambda: state(pool) is InstanceState.FAILED)
    status = pool.status("m")
    assert status is not None


async def test_only_http_probes_are_watched(
    make_pool: MakePool, driver: FakeDriver, planner: FakePlanner
) -> None:
    planner.probe = HealthProbe(type=ProbeType.TCP, interval=0.005)
    pool = make_pool(**WATCHED)
    await pool.load("m")
    driver.habits.answers = False
    await asyncio.sleep(0.1)
    assert state(pool) is InstanceState.READY


async def test_the_watchdogs_error_is_of_its_own_kind(make_pool: MakePool, driver: FakeDriver) -> None:
    pool = make_pool(**WATCHED)
    async with pool.lease("m") as lease:
        pass
    driver.habits.answers = False
    await until(lambda: state(pool) is InstanceState.FAILED)
    assert isinstance(await lease.why(), EngineUnhealthyError)


# --- logs -------------------------------------------------------------------------------------------------


async def test_a_follower_gets_what_comes_until_the_end(
    pool: Pool, driver: FakeDriver, planner: FakePlanner
) -> None:
    planner.gate.clear()
    loading = asyncio.create_task(pool.load("m"))
    await asyncio.sleep(0)

    async def follow() -> list[str]:
        return [line.text async for line in pool.logs("m", follow=True)]

    following = asyncio.create_task(follow())
    await asyncio.sleep(0)
    planner.gate.set()
    await loading
    await pool.unload("m")
    assert await following == ["engine started"]


# --- shutdown ---------------------------------------------------------------------------------------------


async def test_a_shutdown_ends_starts_and_engines_within_its_time(
    make_pool: MakePool, driver: FakeDriver, ports: PortBroker
) -> None:  # L21
    pool = make_pool(shutdown_timeout=0.4, drain_timeout=60.0)
    driver.special["starting"] = FakeHabits(answers=False)
    driver.special["stubborn"] = FakeHabits(stubborn=True)
    await pool.load("ready")
    await pool.load("stubborn")
    starting = asyncio.create_task(pool.load("starting"))
    await until(lambda: len(driver.running) == 3)
    async with pool.lease("ready") as lease:
        await asyncio.wait_for(pool.aclose(), 5)
        assert lease.cut.is_set()
    with pytest.raises(EngineStoppedError, match="the server is shutting down"):
        await starting
    assert (driver.running, ports.leased, pool.statuses()) == ([], frozenset(), [])
    with pytest.raises(EngineStoppedError, match="the server is shutting down"):
        await pool.load("ready")
    await pool.aclose()


async def test_what_does_not_end_is_waited_for_once(
    make_pool: MakePool, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pool = make_pool(shutdown_timeout=0.05)
    await pool.load("m")
    (engine,) = driver.engines
    stop, ends = engine.stop, asyncio.Event()

    async def hang(*, grace: float) -> ExitStatus:
        await ends.wait()
        return await stop(grace=grace)

    monkeypatch.setattr(engine, "stop", hang)
    await pool.aclose()
    await pool.aclose()
    assert caplog.text.count("still running after the shutdown timeout: m") == 1
    ends.set()
    await until(lambda: not pool.statuses())


async def test_the_end_of_the_event_loop_ends_engines_too(
    planner: FakePlanner, ports: PortBroker, driver: FakeDriver
) -> None:  # L21
    from lemonpod.engine.settings import EngineSettings

    pool = Pool(planner, [driver], ports, EngineSettings())
    await pool.load("m")
    driver.habits.answers = False
    waiting = asyncio.create_task(pool.load("n"))
    await until(lambda: len(driver.running) == 2)
    lives = [task for task in asyncio.all_tasks() if task.get_name().startswith("life of ")]
    for life in lives:
        life.cancel()
    with pytest.raises(EngineStoppedError):
        await waiting
    await asyncio.wait(lives)
    assert (driver.running, ports.leased) == ([], frozenset())
