from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from lemonpod.broker.ports import PortBroker
from lemonpod.engine.pool import Pool
from lemonpod.engine.settings import EngineSettings
from tests.fakes.engine import FakeDriver, FakePlanner
from tests.waiting import unused_ports

PORTS = 20


class Clock:
    """Monotonic time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def planner() -> FakePlanner:
    return FakePlanner()


@pytest.fixture
def first() -> int:
    """The first port that engines get."""
    return unused_ports(PORTS)


@pytest.fixture
def ports(first: int) -> PortBroker:
    return PortBroker(first, first + PORTS - 1)


MakePool = Callable[..., Pool]


@pytest.fixture
async def make_pool(
    driver: FakeDriver, planner: FakePlanner, ports: PortBroker, clock: Clock
) -> AsyncIterator[MakePool]:
    """Pools that are closed after the test, which must not leave a port, a task or an engine."""
    pools: list[Pool] = []

    def make(**settings: Any) -> Pool:
        fast = {"abandon_grace": 0.02, "drain_timeout": 5.0, "watchdog": False}
        chosen = EngineSettings(**{**fast, **settings})
        pools.append(Pool(planner, [driver], ports, chosen, clock=clock))
        return pools[-1]

    yield make
    planner.gate.set()
    for pool in pools:
        await pool.aclose()
    assert ports.leased == frozenset()
    assert driver.running == [] or driver.habits.immortal
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


@pytest.fixture
def pool(make_pool: MakePool) -> Pool:
    return make_pool()
