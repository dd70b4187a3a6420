"""Containers that are run by their command line, on real engines: they end with their engine all the same."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from lemonpod.drivers.process import ProcessDriver, ProcessEngine
from lemonpod.launch.plan import LaunchPlan, ProcessSpec
from lemonpod.launch.started import implied_stop
from tests.engines.conftest import SETTINGS
from tests.factories import make_plan
from tests.lab.engine import ContainerEngine
from tests.lab.images import TINY
from tests.waiting import until, unused_port

_STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"


def plan_by_cli(engine: ContainerEngine, name: str) -> LaunchPlan:
    """Of an engine that ignores TERM, which is all that its program hands on."""
    flags = ("--rm", "--network", "host", "--stop-timeout", "1", "--name", name)
    argv = (engine.runtime, "run", *flags, TINY, "sh", "-c", _STUBBORN)
    return make_plan(*argv, port=unused_port(), stop=implied_stop(ProcessSpec(argv=argv, cwd=None)))


@pytest.mark.parametrize("ends", ["stop", "kill"])
async def test_it_does_not_outlive_its_program(
    engine: ContainerEngine, tmp_path: Path, ends: str
) -> None:  # C01
    """However that ends; and its name is free for the next."""
    driver = ProcessDriver(tmp_path, {**os.environ, **engine.env}, SETTINGS)
    for _ in range(2):
        started = driver.create(plan_by_cli(engine, "lemonpod-test-by-cli"))
        await started.start()
        await until(partial(is_up, started))
        assert engine.containers() != []
        if ends == "kill":
            os.kill((await started.inspect()).pid or 0, signal.SIGKILL)
            assert (await started.wait()).signal == signal.SIGKILL
            assert engine.containers() != []  # which hears nothing of it
        await started.stop(grace=5.0)
        await until(lambda: engine.containers() == [])
    await driver.aclose()


def is_up(engine: ProcessEngine) -> bool:
    return engine.log_tail(1) == ("up",)
