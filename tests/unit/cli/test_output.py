"""Whatever takes our output: a pipe that closes, a full disk, a terminal of few characters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lemonpod.cli.app import run
from lemonpod.cli.output import print_json, print_table, steps
from tests.factories import make_document


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's manifest folder, with a name in it that neither ASCII nor UTF-8 can write."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config/lemonade/backends"
    folder.mkdir(parents=True)
    (folder / "good.json").write_text(json.dumps(make_document(display_name="Ünï ☃")))
    (folder / os.fsdecode(b"caf\xe9.json")).write_text("{")
    for file in folder.iterdir():
        file.chmod(0o644)
    return folder


def lemonpod(*arguments: str, **streams: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "lemonpod", *arguments]
    return subprocess.run(command, check=False, stderr=subprocess.PIPE, **streams)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize(
    "arguments", [["manifest", "schema"], ["backends", "--json"], ["host"], ["--version"]], ids=" ".join
)
def test_a_reader_that_goes_away_is_no_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:
        done = lemonpod(*arguments, stdout=pipe)

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", [["manifest", "schema"], ["backends", "--json"]], ids=" ".join)
def test_a_full_disk_is_3_and_said_in_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = lemonpod(*arguments, stdout=full)

    assert (done.returncode, done.stderr) == (3, b"error: No space left on device\n")


def test_without_any_output_the_exit_code_is_the_same() -> None:
    shell = f"exec {sys.executable} -m lemonpod backends --json >&-"
    done = subprocess.run(["sh", "-c", shell], check=False, stderr=subprocess.PIPE)

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.usefixtures("backends")
def test_every_terminal_is_shown_what_it_can_show(encoding: str) -> None:
    environ = os.environ | {"PYTHONIOENCODING": encoding}
    table = lemonpod("backends", "--all", env=environ, stdout=subprocess.PIPE)
    answer = lemonpod("backends", "--json", env=environ, stdout=subprocess.PIPE)

    assert table.returncode == answer.returncode == 0
    assert b"caf?.json" in table.stdout or b"caf\\udce9.json" in table.stdout
    document = json.loads(answer.stdout)
    assert "Ünï ☃" in [recipe["display_name"] for recipe in document["recipes"]]
    assert os.fsencode(document["rejected"][0]["path"]).endswith(b"caf\xe9.json")


def test_json_stays_readable_where_it_can(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": "☃"})

    assert capsys.readouterr().out == '{\n  "name": "☃"\n}\n'


def test_a_name_gives_the_terminal_no_orders(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["NAME"], [["a\x1b[31m\x9bb\nc"]], empty="")

    out = capsys.readouterr().out
    assert "a\\x1b[31m\\x9bb" in out
    assert "\x1b[31m" not in out


def test_an_error_of_the_machine_is_no_bug(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/disk/file")

    monkeypatch.setattr("lemonpod.cli.local.inventory", full)

    assert run(["list"]) == 3
    assert capsys.readouterr().err == "error: /disk/file: No space left on device\n"


def test_where_no_terminal_ends_it_a_row_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["REASON", "FILE"], [("why " * 300, "a.json")], empty="")

    _, row = capsys.readouterr().out.splitlines()
    assert row.split() == ["why"] * 300 + ["a.json"]


def test_steps_are_lines_beside_the_output_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with steps("Asking m") as tell:
        tell("1 of 2")
        assert capsys.readouterr() == ("", "Asking m: 1 of 2\n")
        tell("2 of 2")
    assert capsys.readouterr() == ("", "Asking m: 2 of 2\n")


def test_steps_take_turns_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    with steps("Asking m") as tell:
        tell("1 of [2]")
    out, err = capsys.readouterr()
    assert out == ""
    assert "Asking m" in err
