"""Drivers to run the suites over. A driver's fixture fails if the test left anything running."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from lemonpod.contract.tokens import parse_template
from lemonpod.drivers.process import ProcessDriver, ProcessEngine
from lemonpod.engine.settings import EngineSettings
from lemonpod.launch.plan import LaunchPlan, StopCommand
from tests.factories import make_plan
from tests.fake_engine import ROOT, fake_engine_argv
from tests.waiting import carriers, unused_port

Start = Callable[[LaunchPlan], ProcessEngine]

SETTINGS = EngineSettings(stop_grace=2.0, stop_command_timeout=2.0)


def fake_plan(*flags: object, port: int | None = None, **overrides: object) -> LaunchPlan:
    """A plan for the fake engine with some habits."""
    port = port or unused_port()
    return make_plan(*fake_engine_argv("--port", port, *flags), port=port, cwd=ROOT, **overrides)  # type: ignore[arg-type]


def shell_plan(script: str, *, port: int | None = None, **overrides: object) -> LaunchPlan:
    return make_plan("sh", "-c", script, port=port or unused_port(), **overrides)  # type: ignore[arg-type]


def stop_spec(*argv: str) -> StopCommand:
    return StopCommand(argv=tuple(parse_template(part) for part in argv))


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[ProcessDriver]:
    driver = ProcessDriver(tmp_path / "state", dict(os.environ), SETTINGS)
    yield driver
    await driver.aclose()
    assert list((tmp_path / "state").glob("*")) == []
    assert carriers(driver.run) == []
    assert len(asyncio.all_tasks()) == 1


@pytest.fixture
async def create(driver: ProcessDriver) -> AsyncIterator[Start]:
    """Make engines that are stopped after the test, if the test has not done so."""
    engines: list[ProcessEngine] = []

    def make(plan: LaunchPlan) -> ProcessEngine:
        engines.append(driver.create(plan))
        return engines[-1]

    yield make
    for engine in engines:
        await engine.stop(grace=0.2)
