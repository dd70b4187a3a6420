"""The page about other APIs names every path that is translated."""

from __future__ import annotations

from pathlib import Path

import pytest

from lemonpod.gateway.translate.endpoints import ENDPOINTS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "other-apis.md").read_text("utf-8")


@pytest.mark.parametrize("path", ENDPOINTS)
def test_every_path_is_there(path: str) -> None:
    assert f"`POST {path.replace('/api/v1', '/v1')}`" in PAGE
