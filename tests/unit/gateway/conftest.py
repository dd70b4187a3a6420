from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.gateway.world import Starter


@pytest.fixture
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Starter]:
    """Starts gateways in front of scripted engines, and ends them with the test."""
    # Scripted engines tell of their death at once; a test that breaks a connection need not wait for it.
    monkeypatch.setattr("lemonpod.engine.instance.WHY_TIMEOUT", 0.05)
    async with Starter(tmp_path) as starter:
        yield starter
