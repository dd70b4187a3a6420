"""A server in miniature that starts an engine in a container, to be killed: `… STATE URL RUNTIME PORT`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from lemonpod.drivers.container import ContainerDriver
from lemonpod.engine.probe import until_ready
from lemonpod.launch.argv.connection import Connection
from lemonpod.launch.container import Namespace, Runtime
from lemonpod.launch.plan import LaunchPlan
from tests.engines.containers import PROBE, SETTINGS, serving_script
from tests.factories import make_container_plan
from tests.lab.images import TINY


def plan_of(runtime: str, port: int, url: str | None, **plan: object) -> LaunchPlan:
    """What this server and the one after it start."""
    return make_container_plan(
        "sh",
        "-c",
        serving_script(port),
        port=port,
        image=TINY,
        runtime=Runtime(runtime),
        published=False,
        network_mode=Namespace("host"),
        name=f"lemonpod-test-{port}",
        connection=Connection(url=url),
        probe=PROBE,
        plan={"overrides": {"ctx_size": 4096}, **plan},
    )


async def main(state: Path, url: str, runtime: str, port: int) -> None:
    driver = ContainerDriver(state, dict(os.environ), SETTINGS)
    engine = driver.create(plan_of(runtime, port, url or None))
    await engine.start()
    await until_ready(engine)
    print((await engine.inspect()).pid, flush=True)
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
