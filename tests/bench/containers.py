"""From a load to a ready container: `python -m tests.bench.containers [ENGINE ...]`.

The same container is started by lemonpod's pool over the API, and by hand with `run -d` and polling `/health`
at the same interval; both sides alternate, so that noise hits both. A task that should run every millisecond
tells for how long the event loop was kept from it while containers start and stop.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
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
from tests.bench import program
from tests.bench.figures import Figure
from tests.bench.install import MissingError
from tests.bench.loading import INTERVAL, healthy
from tests.bench.program import Run
from tests.bench.relay.peers import free_port, on_port
from tests.bench.report import Report
from tests.lab.engine import ContainerEngine
from tests.lab.errors import LabError
from tests.lab.images import TINY
from tests.lab.lab import KINDS, lab_of_a_run
from tests.lab.packages import why_not
from tests.unit.launch.requests import make_manifest, make_request

NAME: Final = "containers"
TICK: Final = 0.001
ENGINE_ARGS: Final = ("httpd", "-f", "-p", "127.0.0.1:{port}", "-h", "/www")


def bench(run: Run, *, names: Sequence[str] = tuple(KINDS)) -> Report:
    """Raises MissingError where no engine can be run, or none is here: nothing is installed for it."""
    if reason := why_not():
        raise MissingError(reason)
    if not (shutil.which("podman") or shutil.which("docker")):
        raise MissingError("neither podman nor docker here: just lab install")
    rounds = run.times(11, quick=2)
    gc.freeze()  # as the server does
    figures: list[Figure] = []
    missing = {}
    with lab_of_a_run() as lab:
        for name in names:
            run.tell(f"{rounds} containers of {name}, by lemonpod and by hand")
            try:
                engine = lab.engine(name)
            except (LabError, OSError) as error:
                missing[name] = str(error)
                continue
            figures += uvloop.run(compare(engine, rounds))
    return Report(name=NAME, figures=figures, missing=missing)


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


async def compare(engine: ContainerEngine, rounds: int) -> list[Figure]:
    """Both times, and the longest that the event loop was held up."""
    with tempfile.TemporaryDirectory() as folder:
        driver = ContainerDriver(Path(folder), {**os.environ, **engine.env}, EngineSettings())
        pool = Pool(Planner(engine), [driver], PortBroker(20_000, 20_999), EngineSettings(watchdog=False))
        gaps = Gaps()
        ticking = asyncio.create_task(note_gaps(gaps))
        try:
            # Both once unmeasured: the SDK's import, the image's pages.
            await ours(pool)
            await theirs(engine)
            pairs = [(await ours(pool), await theirs(engine)) for _ in range(rounds)]
        finally:
            await pool.aclose()
            await driver.aclose()
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking
    loads, by_hand = ([seconds * 1000 for seconds in side] for side in zip(*pairs, strict=True))
    return [
        Figure(what=f"load on {engine.name}", unit="ms", ours=loads, against="run -d", theirs=by_hand),
        Figure(what="its event loop was late", unit="ms at most", ours=[1000 * max(gaps.late)]),
        Figure(what="and itself at work", unit="ms at most", ours=[1000 * max(gaps.work)]),
    ]


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
    port = free_port()
    name = f"lemonpod-test-hand-{port}"
    begun = time.perf_counter()
    engine.run_cli(*on_port(run_args(name), port))
    while not healthy(port):
        time.sleep(INTERVAL)
    took = time.perf_counter() - begun
    engine.run_cli("rm", "-f", name)
    return took


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


def main() -> None:
    parser = program.parser(__doc__, NAME)
    parser.add_argument(
        "engines", nargs="*", metavar="ENGINE", help=f"of {', '.join(KINDS)}; all, if left out"
    )
    said = parser.parse_args()
    if unknown := [name for name in said.engines if name not in KINDS]:
        parser.error(f"no such engine: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    program.run(said, partial(bench, names=said.engines or tuple(KINDS)))


if __name__ == "__main__":
    main()
