"""`lemonpod manifest argv`: one command line, as a spec, as an API body, or as a line again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from lemonpod.cli.app import run
from lemonpod.inventory.caller import MAX_BYTES


def argv(*words: str) -> int:
    return run(["manifest", "argv", *words])


def test_the_spec_is_what_is_printed_unless_asked_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    assert argv("--", "podman", "run", "--rm", "-m", "1g", "img", "--format", "cli") == 0
    assert json.loads(capsys.readouterr().out) == {
        "runtime": "podman",
        "image": "img",
        "command": ["--format", "cli"],
        "remove": True,
        "memory": 1 << 30,
    }


def test_the_body_is_alone_on_stdout_and_the_query_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert argv("--format", "docker", "--", "docker", "run", "--name", "a b", "img") == 0
    shown = capsys.readouterr()

    assert json.loads(shown.out)["Image"] == "img"
    assert shown.err == "query: name=a+b\n"


def test_a_body_without_a_query_says_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert argv("--format=podman", "--", "podman", "create", "--name", "n", "img") == 0
    shown = capsys.readouterr()

    assert json.loads(shown.out)["name"] == "n"
    assert shown.err == ""


def test_a_line_to_paste_asks_for_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["docker", "run", "-it", "-e", "A=b c", "img", "-x"]
    assert argv("--format", "cli", "--", *asked) == 0
    line = capsys.readouterr().out
    assert argv("--", *asked) == 0
    spec = capsys.readouterr().out

    assert "'--env=A=b c' img -x\n" in line
    assert argv("--", *shlex.split(line)) == 0
    assert capsys.readouterr().out == spec


def test_the_callers_folder_variables_and_files_are_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("A=1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEMON", "yes")

    assert argv("--", "docker", "run", "--env-file=.env", "-e", "LEMON", "-v", "./m:/m", "img") == 0
    spec = json.loads(capsys.readouterr().out)
    assert spec["env"] == [{"name": "A", "value": "1"}, {"name": "LEMON", "value": "yes"}]
    assert spec["volumes"][0]["source"] == f"{tmp_path}/m"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["docker", "run", "--shm-size", "16Gi", "img"],
            "docker run: '--shm-size' takes a size as 512m or 16g, not '16Gi', at argv[2]",
        ),
        (["docker", "run", "--wat", "img"], "docker run: unknown flag '--wat', at argv[2]"),
        (
            ["podman", "run", "--rmi", "img"],
            "podman run: '--rmi' cannot be said over the API: the program removes the image afterwards,"
            " at argv[2]",
        ),
        (["docker", "ps"], "no run or create of podman or docker, at argv[0]"),
    ],
)
def test_an_error_names_flag_and_position(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert argv("--", *words) == 1
    shown = capsys.readouterr()

    assert shown.out == ""
    assert shown.err.splitlines()[0] == f"error: {message}"


def test_a_line_of_one_is_no_body_for_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert argv("--format", "docker", "--", "sudo", "podman", "run", "img") == 1
    assert "a command line of podman; its flags mean other things to docker" in capsys.readouterr().err


def test_a_file_without_end_is_not_read_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert argv("--", "docker", "run", "--env-file", "/dev/zero", "img") == 1
    assert f"'/dev/zero', more than {MAX_BYTES} bytes, at argv[2]" in capsys.readouterr().err
