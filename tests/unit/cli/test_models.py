"""`lemonpod list`: what keeps models from loading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lemonpod.cli.app import run


def test_list_tells_of_a_program_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"GGUF")
    assert run(["register", "m", "--recipe", "llamacpp", "--file", str(weights)]) == 0
    capsys.readouterr()

    assert run(["list", "--json"]) == 0
    [model] = json.loads(capsys.readouterr().out)["models"]
    assert model["downloaded"]
    assert "llama-server" in model["problems"][0]
    (tmp_path / "llama-server").touch(mode=0o755)
    assert run(["list", "--json"]) == 0
    [model] = json.loads(capsys.readouterr().out)["models"]
    assert model["problems"] == []
