"""`lemonpod load` against a server's event stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lemonpod.cli.app import run
from tests.unit.cli.conftest import http

Answering = Callable[[bytes], str]


def event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def pulling(done: int, text: str = "pulling image") -> bytes:
    progress = {"text": text, "done_bytes": done, "total_bytes": 8, "percent": done / 8}
    return event("progress", {"model_name": "user.m", "status": "preparing", "progress": progress})


LOADING = event("progress", {"model_name": "user.m", "status": "loading", "progress": None})
COMPLETE = event("complete", {"status": "success", "model_name": "user.m"})


def test_each_step_is_told_once_where_nobody_watches(
    answering: Answering, capsys: pytest.CaptureFixture[str]
) -> None:
    port = answering(http(pulling(1) + pulling(8) + LOADING + COMPLETE))
    assert run(["load", "m", "--port", port]) == 0
    out, err = capsys.readouterr()
    assert err == "pulling image\n"
    assert out.startswith("user.m is ready after ")


def test_a_servers_error_is_the_commands(answering: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    failure = {"error": {"message": "no such tag", "code": "model_load_error"}, "status_code": 500}
    port = answering(http(LOADING + event("error", failure)))
    assert run(["load", "m", "--port", port]) == 1
    assert "error: no such tag" in capsys.readouterr().err


def test_what_a_terminal_would_obey_is_not_printed(
    answering: Answering, capsys: pytest.CaptureFixture[str]
) -> None:
    port = answering(http(pulling(1, "pulling \x1b[2J") + COMPLETE))
    assert run(["load", "m", "--port", port]) == 0
    assert capsys.readouterr().err == "pulling \\x1b[2J\n"


def test_a_stream_without_its_end_is_no_success(
    answering: Answering, capsys: pytest.CaptureFixture[str]
) -> None:
    port = answering(http(LOADING))
    assert run(["load", "m", "--port", port]) != 0
    assert "broke off" in capsys.readouterr().err


def test_what_follows_a_pull_is_no_part_of_its_bar(
    answering: Answering, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    port = answering(http(pulling(6) + LOADING + COMPLETE))
    assert run(["load", "m", "--port", port]) == 0
    last = capsys.readouterr().err.rpartition("Loading m")[2]
    assert "0/? bytes" in last
