"""Whatever happens in whatever order, nothing is left: no process, no port, no task, no memory.

Set LEMONPOD_TEST_SEED for other rounds than those of every run, as `just nightly` does; the seed is printed.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lemonpod.broker.ports import PortBroker
from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.vocabulary import JsonValue
from lemonpod.drivers.child import Child
from lemonpod.drivers.process import ProcessDriver, ProcessEngine
from lemonpod.engine.instance import EngineLease, Instance
from lemonpod.engine.logbuf import LogBuffer
from lemonpod.engine.pool import Pool
from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import EngineError, ModelNotLoadedError
from lemonpod.launch.plan import LaunchPlan
from tests.factories import make_plan
from tests.fake_engine import TINY_ENGINE
from tests.waiting import carriers, until, unused_ports

SEED = int(os.environ.get("LEMONPOD_TEST_SEED", "1"))
ROUNDS = 200
MODELS = ("a", "b", "c")
SETTINGS = EngineSettings(
    stop_grace=1.0,
    drain_timeout=0.1,
    abandon_grace=0.01,
    cooldown_first=0.01,
    cooldown_max=0.02,
    watchdog_grace=0.05,
    watchdog_interval=0.05,
)


class TinyPlanner:
    """Plans tiny engines whose habits are an option."""

    async def plan(self, model: str, overrides: Mapping[str, JsonValue], port: int) -> LaunchPlan:
        habits = str(overrides.get("habits", "")).split()
        plan = make_plan(
            *TINY_ENGINE, str(port), *habits, port=port, probe=HealthProbe(timeout=10.0, interval=0.01)
        )
        digest = hashlib.sha256(f"{model} {habits}".encode()).hexdigest()
        return replace(plan, model=model, digest=digest)


class Chaos:
    """Clients and accidents, drawn from one seeded source."""

    def __init__(self, pool: Pool, draw: random.Random) -> None:
        self._pool = pool
        self._draw = draw
        self.seen: Counter[str] = Counter()

    async def round(self) -> None:
        events = self._draw.choices(
            [self.request, self.load, self.depart, self.crash, self.unload, self.reload, self.look],
            weights=[5, 3, 4, 3, 4, 2, 1],
            k=self._draw.randint(1, 4),
        )
        await asyncio.gather(*(event(self._draw.choice(MODELS), self._draw.random()) for event in events))

    async def request(self, model: str, chance: float) -> None:
        with suppress(EngineError):
            async with self._pool.lease(model) as lease:
                self.seen["request"] += 1
                with suppress(OSError):
                    await say_hello(lease.endpoint.port)
                if chance < 0.2:
                    await asyncio.sleep(0.15)  # longer than the drain timeout

    async def load(self, model: str, chance: float) -> None:
        with suppress(EngineError):
            await self._pool.load(model)
            self.seen["load"] += 1

    async def depart(self, model: str, chance: float) -> None:
        work = asyncio.create_task(self.request(model, 1.0) if chance < 0.5 else self.load(model, 1.0))
        await asyncio.wait({work}, timeout=chance * 0.08)
        if not work.done():
            self.seen["departure"] += 1
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work

    async def crash(self, model: str, chance: float) -> None:
        await self.load(model, chance)
        status = self._pool.status(model)
        if status is not None and status.pid is not None:
            with suppress(ProcessLookupError):
                # A zombie keeps its pid until the pool has noticed: this hits no stranger.
                os.kill(status.pid, signal.SIGKILL if chance < 0.5 else signal.SIGSEGV)
                self.seen["crash"] += 1

    async def unload(self, model: str, chance: float) -> None:
        await asyncio.sleep(chance * 0.05)
        with suppress(ModelNotLoadedError):
            await self._pool.unload(model)
            self.seen["unload"] += 1

    async def reload(self, model: str, chance: float) -> None:
        habits = "child" if chance < 0.6 else "die=0.02" if chance < 0.8 else "child die=0"
        with suppress(EngineError):
            await self._pool.load(model, {"habits": habits})
            self.seen["reload"] += 1

    async def look(self, model: str, chance: float) -> None:
        self._pool.statuses()
        with suppress(ModelNotLoadedError):
            await self._pool.stats(model)
            async for _ in self._pool.logs(model, tail=5):
                self.seen["line"] += 1


async def say_hello(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.read(100)
    finally:
        writer.transport.abort()


def held() -> Counter[str]:
    """What of ours the memory holds."""
    gc.collect()
    kinds = {Instance, EngineLease, ProcessEngine, Child, LogBuffer}
    return Counter(kind.__name__ for kind in map(type, gc.get_objects()) if kind in kinds)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def waiting_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lemonpod-wait")]


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[ProcessDriver]:
    driver = ProcessDriver(tmp_path / "state", dict(os.environ), SETTINGS)
    yield driver
    await driver.aclose()
    assert os.listdir(tmp_path / "state") == []


@pytest.mark.timeout(180)  # some hundred processes
async def test_two_hundred_rounds_leave_nothing(driver: ProcessDriver) -> None:
    print(f"LEMONPOD_TEST_SEED={SEED}")
    before = held()
    draw = random.Random(SEED)
    first = unused_ports(20)
    ports = PortBroker(first, first + 19)
    pool = Pool(TinyPlanner(), [driver], ports, SETTINGS)
    chaos = Chaos(pool, draw)
    warm_up = ROUNDS // 4
    files = blocks = 0
    for number in range(ROUNDS):
        if number == warm_up:
            await pool.unload_all()
            held()
            files, blocks = open_files(), sys.getallocatedblocks()
        await chaos.round()
        assert len(ports.leased) <= len(MODELS)
    await pool.unload_all()

    assert pool.statuses() == []
    assert carriers(driver.run) == []
    assert ports.leased == frozenset()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert waiting_threads() == []
    await until(lambda: held() - before == Counter())  # a thread that has just ended lets go a little later
    assert open_files() <= files
    # Caches of the interpreter may still warm up; one leaked engine a round would not fit.
    assert sys.getallocatedblocks() - blocks < 5_000
    print(dict(chaos.seen))
    assert {"request", "load", "departure", "crash", "unload", "reload"} <= chaos.seen.keys()

    await pool.load("a")
    await pool.aclose()
    assert carriers(driver.run) == []
