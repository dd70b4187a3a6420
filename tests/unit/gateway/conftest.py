from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvloop

from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Script
from tests.unit.gateway.hubbed import site, world  # noqa: F401 - fixtures for every module
from tests.unit.gateway.sockets import StartSocket
from tests.unit.gateway.world import Starter, World, install_variant

PROGRAM = "whisper-server"


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


@pytest.fixture
def serve(start: Starter, tmp_path: Path) -> StartSocket:
    """Starts a gateway whose engine streams transcriptions: an installed variant, played by a script."""

    async def started(script: Script, settings: GatewaySettings | None = None, **more: Any) -> World:
        install_variant(tmp_path, PROGRAM)
        return await start(
            script,
            capabilities=["transcription", "streaming_transcription"],
            settings=settings,
            variant_of="whispercpp",
            platforms={"linux": {"cpu": {"binary": PROGRAM}}},
            **more,
        )

    return started
