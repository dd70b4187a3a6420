"""Files and folders that are not for us to read: said, with the rest of the answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lemonpod.cli.app import run
from tests.users import bound_by_modes, open_folder


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that everybody can reach, but for the folder `closed` in it."""
    with open_folder() as folder:
        monkeypatch.setenv("HOME", str(folder))
        (folder / "closed").mkdir(mode=0o700)
        (folder / "closed").chmod(0)
        yield folder


def test_validate_says_which_file_cannot_be_reached(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with bound_by_modes():
        assert run(["manifest", "validate", str(home / "closed/x.json")]) == 1

    assert capsys.readouterr().out == f"{home}/closed/x.json: cannot stat file: Permission denied\n"


def test_register_says_that_the_file_cannot_be_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with bound_by_modes():
        assert run(["register", "m", "--recipe", "llama-server", "--file", str(home / "closed/m")]) == 3

    assert f"{home}/closed/m: cannot be read: Permission denied" in capsys.readouterr().err


def test_doctor_names_every_closed_folder_and_goes_on(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "closed"))
    monkeypatch.setenv("HF_HOME", str(home / "closed"))
    with bound_by_modes():
        assert run(["doctor", "--port", "1"]) == 1

    out = capsys.readouterr().out
    assert f"FAIL cache folder: {home}/closed/lemonade cannot be made or reached" in out
    assert f"FAIL model cache: {home}/closed/hub cannot be read: Permission denied" in out
    assert "none runs on 127.0.0.1:1" in out
