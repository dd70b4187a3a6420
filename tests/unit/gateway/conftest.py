from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import uvloop

from lemonpod.contract.vocabulary import CAPABILITIES, Capability
from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Script
from tests.unit.gateway.sockets import StartSocket
from tests.unit.gateway.world import Starter, World


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
def serve(start: Starter, monkeypatch: pytest.MonkeyPatch) -> StartSocket:
    """Starts a gateway whose engine streams transcriptions.

    Only a variant may, and its command line is a built-in's:
    here that rule sleeps, and a script stands for one.
    """
    capability = Capability.STREAMING_TRANSCRIPTION
    spec = replace(CAPABILITIES[capability], variant_only=False)
    table = MappingProxyType({**CAPABILITIES, capability: spec})
    monkeypatch.setattr("lemonpod.contract.rules.CAPABILITIES", table)

    async def started(script: Script, settings: GatewaySettings | None = None, **more: Any) -> World:
        return await start(script, capabilities=["streaming_transcription"], settings=settings, **more)

    return started
