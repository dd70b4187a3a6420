"""A server in miniature that starts an engine, to be killed: `python -m tests.engines.manager STATE HOW`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from lemonpod.drivers.process import ProcessDriver
from tests.engines.conftest import SETTINGS, fake_plan, shell_plan, stop_spec

PLANS = {
    "plain": lambda: shell_plan("sleep 300"),
    "stubborn": lambda: fake_plan("--ignore-sigterm", "--spawn-child", "--child-ignores-sigterm"),
    "detached": lambda: shell_plan("setsid sh -c 'sleep 300 & sleep 300' & sleep 300"),
    "launcher": lambda: shell_plan("setsid sleep 300 & exit 0"),
    "deaf": lambda: fake_plan("--ignore-sigterm", stop=stop_spec("sleep", "300")),
    "stop-command": lambda: shell_plan(
        "sleep 300", stop=stop_spec("sh", "-c", "echo {pid} > $HOME/stopped; kill -9 {pid}")
    ),
    "outlived": lambda: shell_plan("exit 0", stop=stop_spec("sh", "-c", "echo late > $HOME/stopped")),
}


async def main(state: Path, how: str) -> None:
    driver = ProcessDriver(state, dict(os.environ), SETTINGS)
    engine = driver.create(PLANS[how]())
    await engine.start()
    if how in ("launcher", "outlived"):
        await engine.wait()
    await asyncio.sleep(0.2)
    print(driver.run, (await engine.inspect()).pid, flush=True)
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
