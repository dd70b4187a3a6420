"""What commands say to servers that are none of ours, or break off."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from lemonpod.cli.app import run
from tests.unit.cli.conftest import http

COMMANDS = (["status"], ["load", "m"], ["unload"], ["pin", "m"], ["unpin", "m"])


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]", b"null", b"", b"\xff\xfe\x00", b"data: x\n\n"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_server_that_is_none_of_ours_is_named_as_that(
    command: list[str],
    body: bytes,
    answering: Callable[[bytes], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    port = answering(http(body))

    assert run([*command, "--port", port]) == 3
    assert f"what answers on 127.0.0.1:{port} is no lemonpod server" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_answer_that_breaks_off_is_said(
    command: list[str], answering: Callable[[bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    half = b"event: progress\ndata: {}\n\n" if command[0] == "load" else b'{"model'
    port = answering(http(half, length=100))

    assert run([*command, "--port", port]) == 3
    assert "broke off its answer" in capsys.readouterr().err


@pytest.mark.parametrize("events", [b"", b"<html>", b'data: {"choices":[{"delta":{"content":"half"}}]}\n\n'])
def test_an_answer_without_its_end_is_not_taken_for_a_whole_one(
    events: bytes, answering: Callable[[bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", "m", "hi", "--port", answering(http(events))]) == 1

    printed = capsys.readouterr()
    assert printed.out == ("half\n" if events[:4] == b"data" else "")
    assert "the answer broke off before its end" in printed.err


def test_a_whole_answer_is_printed(
    answering: Callable[[bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    events = b'data: {"choices":[{"delta":null}]}\n\ndata: {"choices":[{"delta":{"content":"hi"}}]}\n\n'

    assert run(["run", "m", "\udcff", "--port", answering(http(events + b"data: [DONE]\n\n"))]) == 0
    assert capsys.readouterr().out == "hi\n"


@pytest.mark.parametrize("arguments", [["--host", "a..b"], ["--host", "a b"], ["--host", "é" * 80]])
def test_a_host_that_is_none_is_no_bug(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", *arguments]) == 3
    assert "no lemonpod server answers on" in capsys.readouterr().err
    assert run(["doctor", *arguments]) == 0


def test_doctor_does_not_wait_for_a_program_that_takes_connections_and_never_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lemonpod.cli.examine._ANSWER_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        assert run(["doctor", "--port", str(port)]) == 1

    assert f"FAIL server: something else answers on 127.0.0.1:{port}" in capsys.readouterr().out


@pytest.mark.parametrize("key", ["ключ", "a\nb"])
def test_a_key_that_cannot_be_sent_is_no_bug(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--api-key", key]) == 3
    assert "the API key holds a character that cannot be sent" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["-1", "0", "65536"])
@pytest.mark.parametrize("command", [["status"], ["doctor"], ["manifest", "plan", "r", "--model", "m"]])
def test_a_port_that_is_none_is_wrong_usage(command: list[str], port: str) -> None:
    assert run([*command, "--port", port]) == 2


@pytest.mark.parametrize(
    ("command", "said"), [("pin", "user.m is pinned\n"), ("unpin", "user.m is no longer pinned\n")]
)
def test_a_model_is_pinned_where_images_are(
    command: str, said: str, answering: Callable[[bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    port = answering(http(b'{"status": "success", "model_name": "user.m"}'))

    assert run([command, "m", "--port", port]) == 0
    assert capsys.readouterr().out == said
