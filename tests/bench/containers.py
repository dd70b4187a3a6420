"""From a load to a ready container: `python -m tests.bench.containers [ROUNDS [ENGINE ...]]`.

The same container is started by lemonpod's pool over the API, and by hand with `run -d` and polling `/health`
at the same interval; both sides alternate, so that noise hits both. A task that should run every millisecond
tells for how long the event loop was kept from it while containers start and stop.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import uvloop

from lemonpod.broker.ports import PortBroker
from lemonpod.contract.vocabulary import JsonValue
from lemonpod.drivers.container import ContainerDriver
from lemonpod.engine.pool import Pool
from lemonpod.engine.settings import EngineSettings
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.resolve import resolve
from tests.lab.engine import ContainerEngine
from tests.lab.images import TINY
from tests.lab.lab import KINDS, lab_of_a_run
from tests.unit.launch.requests import make_manifest, make_request

INTERVAL: Final = 0.02
TICK: Final = 0.001
ENGINE_ARGS: Final = ("httpd", "-f", "-p", "127.0.0.1:{port}", "-h", "/www")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    names = sys.argv[2:] or list(KINDS)
    gc.freeze()  # as the server does
    with lab_of_a_run() as lab:
        for name in names:
            uvloop.run(compare(lab.engine(name), rounds))


def run_args(name: str) -> list[str]:
    return ["run", "-d", "--rm", "--init", "--name", name, "--network", "host", TINY, *ENGINE_ARGS]


class Planner:
    """Plans the tiny engine on whatever port it is given."""

    def __init__(self, engine: ContainerEngine) -> None:
        platform = {"command": engine.runtime, "args": run_args("lemonpod-test-{port}")}
        manifest = make_manifest(
            platforms={"linux": {"cpu": platform}},
            health_probe={"type": "http", "endpoint": "/health", "poll_interval_ms": int(INTERVAL * 1000)},
        )
        self._request = replace(make_request(manifest), env=engine.env)

    async def plan(self, model: str, overrides: Mapping[str, JsonValue], port: int) -> LaunchPlan:
        # In a thread, as the inventory of a server does.
        return await asyncio.to_thread(resolve, replace(self._request, port=port))


async def compare(engine: ContainerEngine, rounds: int) -> None:
    """Print both medians, their ratio, and the longest that the event loop was held up."""
    with tempfile.TemporaryDirectory() as folder:
        driver = ContainerDriver(Path(folder), {**os.environ, **engine.env}, EngineSettings())
        pool = Pool(Planner(engine), [driver], PortBroker(20_000, 20_999), EngineSettings(watchdog=False))
        gaps = Gaps()
        ticking = asyncio.create_task(note_gaps(gaps))
        try:
            (
                await ours(pool),
                await theirs(engine),
            )  # both once unmeasured: the SDK's import, the image's pages
            pairs = [(await ours(pool), await theirs(engine)) for _ in range(rounds)]
        finally:
            await pool.aclose()
            await driver.aclose()
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking
    mine, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = sorted(left / right for left, right in pairs)
    print(
        f"{engine.name}: load to ready / run -d to ready: {mine / other:.2f} ({mine * 1000:.0f} ms / "
        f"{other * 1000:.0f} ms, ratios of {rounds} pairs {ratios[0]:.2f} to {ratios[-1]:.2f}); "
        f"the event loop was late by {1000 * max(gaps.late):.0f} ms at most, and itself at work for "
        f"{1000 * max(gaps.work):.0f} ms at most"
    )


async def ours(pool: Pool) -> float:
    """Seconds from the load to the ready engine."""
    begun = time.perf_counter()
    await pool.load("m")
    took = time.perf_counter() - begun
    await pool.unload("m")
    return took


async def theirs(engine: ContainerEngine) -> float:
    """The same by hand, in a thread: none of it is our event loop's work."""
    return await asyncio.to_thread(by_hand, engine)


def by_hand(engine: ContainerEngine) -> float:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    name = f"lemonpod-test-hand-{port}"
    begun = time.perf_counter()
    engine.run_cli(*(word.replace("{port}", str(port)) for word in run_args(name)))
    while not healthy(port):
        time.sleep(INTERVAL)
    took = time.perf_counter() - begun
    engine.run_cli("rm", "-f", name)
    return took


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@dataclass
class Gaps:
    """Between two turns of a task that should run every millisecond."""

    late: list[float] = field(default_factory=list)
    """Seconds too late: the loop's own work, and whatever else the machine does."""
    work: list[float] = field(default_factory=list)
    """Seconds of processor time that the loop's thread used."""


async def note_gaps(gaps: Gaps) -> None:
    last, worked = time.perf_counter(), time.thread_time()
    while True:
        await asyncio.sleep(TICK)
        now, work = time.perf_counter(), time.thread_time()
        gaps.late.append(now - last - TICK)
        gaps.work.append(work - worked)
        last, worked = now, work


if __name__ == "__main__":
    main()
