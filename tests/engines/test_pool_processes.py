"""The pool over real processes, where time and signals are real."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lemonpod.broker.ports import PortBroker
from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.vocabulary import JsonValue
from lemonpod.drivers.process import ProcessDriver
from lemonpod.engine.api import InstanceState
from lemonpod.engine.pool import Pool
from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import EngineExitedError, EngineStoppedError
from lemonpod.launch.plan import LaunchPlan
from tests.engines.conftest import fake_plan, stop_spec
from tests.factories import make_plan
from tests.fake_engine import TINY_ENGINE
from tests.waiting import carriers, until, unused_ports

FLAGS = {
    "stubborn": ("--ignore-sigterm", "--spawn-child", "--child-ignores-sigterm"),
    "late": ("--ready-after", "600"),
    "dying": ("--exit-after", "0.3", "--exit-code", "1", "--ready-after", "600"),
}


class Planner:
    async def plan(self, model: str, overrides: Mapping[str, JsonValue], port: int) -> LaunchPlan:
        probe = HealthProbe(timeout=300.0, interval=0.02)
        if model in FLAGS:
            return replace(fake_plan(*FLAGS[model], port=port, probe=probe), model=model)
        return replace(make_plan(*TINY_ENGINE, str(port), port=port, probe=probe), model=model)


class Edited:
    """A planner whose manifest says another stop command once `word` is another."""

    def __init__(self, folder: Path) -> None:
        self.word = "before"
        self.said = folder / "said"

    async def plan(self, model: str, overrides: Mapping[str, JsonValue], port: int) -> LaunchPlan:
        stop = stop_spec("sh", "-c", f"echo {self.word} {port} >> {self.said}")
        return make_plan(*TINY_ENGINE, str(port), port=port, stop=stop)


def make_ports() -> PortBroker:
    first = unused_ports(20)
    return PortBroker(first, first + 19)


def make_pool(driver: ProcessDriver, ports: PortBroker, **settings: float) -> Pool:
    return Pool(Planner(), [driver], ports, EngineSettings(**settings))  # type: ignore[arg-type]


async def test_twenty_loads_at_once(driver: ProcessDriver) -> None:  # L07
    ports = make_ports()
    pool = make_pool(driver, ports)
    statuses = await asyncio.gather(*(pool.load(f"m{n}") for n in range(20)))
    assert len({status.plan.endpoint.port for status in statuses if status.plan}) == 20
    await pool.unload_all()
    assert (carriers(driver.run), ports.leased) == ([], frozenset())


async def test_an_exit_during_a_long_start_is_told_at_once(driver: ProcessDriver) -> None:  # L09
    pool = make_pool(driver, make_ports())
    started = time.monotonic()
    with pytest.raises(EngineExitedError, match="exited with code 1 before it was ready") as caught:
        await pool.load("dying")
    assert time.monotonic() - started < 10
    assert "listening on 127.0.0.1" in caught.value.log_tail[-1]
    await pool.aclose()


async def test_a_shutdown_during_a_start_and_with_a_stubborn_engine(driver: ProcessDriver) -> None:  # L21
    ports = make_ports()
    pool = make_pool(driver, ports, stop_grace=60.0, shutdown_timeout=3.0)
    await pool.load("stubborn")
    starting = asyncio.create_task(pool.load("late"))
    await until(lambda: [s.pid for s in pool.statuses() if s.model == "late" and s.pid])
    started = time.monotonic()
    await pool.aclose()
    assert time.monotonic() - started < 10
    with pytest.raises(EngineStoppedError):
        await starting
    assert (carriers(driver.run), ports.leased) == ([], frozenset())


async def test_an_engine_is_stopped_as_it_was_started(driver: ProcessDriver, tmp_path: Path) -> None:  # L27
    """By the stop command of its load, whatever its manifest says by now."""
    edited = Edited(tmp_path)
    pool = Pool(edited, [driver], make_ports(), EngineSettings())
    status = await pool.load("m")
    assert status.plan is not None
    edited.word = "after"
    await pool.unload("m")
    assert edited.said.read_text() == f"before {status.plan.endpoint.port}\n"
    await pool.aclose()


async def test_a_stubborn_engine_holds_up_nobody_else(driver: ProcessDriver) -> None:  # L03
    pool = make_pool(driver, make_ports(), stop_grace=1.0)
    await pool.load("stubborn")
    unloading = asyncio.create_task(pool.unload("stubborn"))
    await asyncio.sleep(0)
    status = await pool.load("m")
    assert status.state is InstanceState.READY
    assert not unloading.done()
    await unloading
    await pool.aclose()
