"""A driver's fixture fails if the test left anything running."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.runtime import FakeRuntimes
from tests.unit.drivers.containers import World, make_server


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A container driver, and whatever its runtime is told to do."""
    before = set(threading.enumerate())
    world = World(*make_server(tmp_path / "state", FakeRuntimes()))
    yield world
    world.runtime.come_back()
    for engine in list(world.driver._engines):
        await engine.stop(grace=0.0)
    await world.driver.aclose()
    # The loop's own executor runs stop commands.
    ours = {one for one in threading.enumerate() if not one.name.startswith(("asyncio_", "fake-listener"))}
    assert ours <= before
