from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.pin.registry import MISSING, LocalRegistry, local_registry


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[LocalRegistry]:
    if MISSING:
        pytest.skip(MISSING)
    folder = tmp_path / "registry"
    folder.mkdir()
    async with local_registry(folder) as running:
        yield running
