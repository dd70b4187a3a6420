from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.unit.gateway.hubbed import site, world  # noqa: F401 - fixtures for every module
from tests.unit.gateway.world import Starter


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the server runs on: the edge depends on how it closes and resets connections."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Starter]:
    """Starts gateways in front of scripted engines, and ends them with the test."""
    # Scripted engines tell of their death at once; a test that breaks a connection need not wait for it.
    monkeypatch.setattr("lemonpod.engine.instance.WHY_TIMEOUT", 0.05)
    async with Starter(tmp_path) as starter:
        yield starter
