"""`lemonpod chat` and `lemonpod status --watch`, in a terminal and without one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import REPOSITORY, LemonpodServer, wait_until
from tests.e2e.terminal import CTRL_C, CTRL_D, UP, Terminal

PROMPT = r">>> "
LONG = "100000"
SOME_WORDS = r"(?:\b(?:the|lemon|pod|tree|is|a|and|yellow|grows)\b[ .,]*){4}"
"""More of the tiny model's than the question has."""


@pytest.fixture
def chat(lemonpod_server: LemonpodServer) -> Iterator[Terminal]:
    arguments = ["chat", "tiny", "--port", str(lemonpod_server.port), "--max-tokens", "4"]
    with Terminal(arguments, lemonpod_server.environ) as terminal:
        terminal.until(r"/help tells[^\n]*\n")
        terminal.until(PROMPT)
        yield terminal


def asked(server: LemonpodServer) -> int:
    return len(server.get("/internal/activity")["requests"])


def input_tokens(server: LemonpodServer, *, after: int) -> int:
    """Of the last of so many requests, once it is over."""
    wait_until(lambda: asked(server) == after, within=30, what=f"{after} requests are over")
    record = server.get("/internal/activity")["requests"][-1]
    return int(record["input_tokens"]) + int(record["cached_tokens"] or 0)


def test_a_talk_remembers_what_was_said(chat: Terminal, lemonpod_server: LemonpodServer) -> None:
    chat.type("the lemon\r")
    first = chat.until(PROMPT)
    short = input_tokens(lemonpod_server, after=1)
    chat.type("and the pod\r")
    chat.until(PROMPT)
    longer = input_tokens(lemonpod_server, after=2)
    chat.type("/clear\r")
    chat.until(PROMPT)
    chat.type(UP + UP + "\r")  # the question before the command
    assert "and the pod" in chat.until(PROMPT)
    chat.type(CTRL_D)

    assert len(first.splitlines()) > 1
    assert longer > short
    assert input_tokens(lemonpod_server, after=3) < longer
    assert chat.process.wait(10) == 0


def test_many_lines_are_one_question(chat: Terminal, lemonpod_server: LemonpodServer) -> None:
    chat.type('"""the\r')
    chat.until(r"\.\.\. ")
    chat.type('lemon"""\r')
    chat.until(PROMPT)
    chat.type("the \\\r")
    chat.until(r"\.\.\. ")
    chat.type("pod\r")
    chat.until(PROMPT)

    wait_until(lambda: asked(lemonpod_server) == 2, within=30, what="both are answered")
    chat.type("/bye\r")
    assert chat.process.wait(10) == 0


def test_commands(chat: Terminal, lemonpod_server: LemonpodServer) -> None:
    chat.type("/help\r")
    chat.until(r"/system TEXT")
    chat.until(PROMPT)
    chat.type("/nope\r")
    chat.until(r"There is no command /nope")
    chat.until(PROMPT)
    chat.type("half a line")
    chat.until("half a line")
    chat.interrupt()
    chat.until(PROMPT)
    chat.type("the\r")
    chat.until(PROMPT)
    plain = input_tokens(lemonpod_server, after=1)
    chat.type("/clear\r")
    chat.until(PROMPT)
    chat.type("/system answer like a pirate\r")
    chat.until(PROMPT)
    chat.type("the\r")
    chat.until(PROMPT)

    assert input_tokens(lemonpod_server, after=2) > plain


def test_ctrl_c_ends_the_engines_work_and_not_the_talk(lemonpod_server: LemonpodServer) -> None:
    arguments = ["chat", "tiny", "--port", str(lemonpod_server.port), "--max-tokens", LONG]
    with Terminal(arguments, lemonpod_server.environ) as chat:
        chat.until(PROMPT)
        chat.type("the lemon\r")
        chat.until(SOME_WORDS)
        chat.type(CTRL_C)
        chat.until(PROMPT)
        wait_until(lambda: asked(lemonpod_server), within=5, what="the request is over")

        def is_idle() -> bool:
            return not lemonpod_server.loaded()[0]["is_busy"]

        wait_until(is_idle, within=5, what="the engine works for nobody")
        [record] = lemonpod_server.get("/internal/activity")["requests"]
        assert record["ending"] == "client_left"
        chat.type(CTRL_D)
        assert chat.process.wait(10) == 0


def test_a_mistake_does_not_end_the_talk(lemonpod_server: LemonpodServer) -> None:
    arguments = ["chat", "nobody", "--port", str(lemonpod_server.port)]
    with Terminal(arguments, lemonpod_server.environ) as chat:
        chat.until(PROMPT)
        chat.type("hello\r")
        chat.until("error: Model 'nobody' was not found")
        chat.until(PROMPT)


def lemonpod(server: LemonpodServer, *arguments: str, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lemonpod", *arguments, "--port", str(server.port)],
        env=server.environ,
        cwd=REPOSITORY,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_a_terminal_each_line_is_a_question(lemonpod_server: LemonpodServer) -> None:
    done = lemonpod(lemonpod_server, "chat", "--max-tokens", "4", text="the lemon\nthe pod\n")

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert ">>>" not in done.stdout
    assert asked(lemonpod_server) == 2


def test_without_a_terminal_a_mistake_ends_it(lemonpod_server: LemonpodServer) -> None:
    done = lemonpod(lemonpod_server, "chat", "nobody", text="hello\nhello\n")

    assert done.returncode == 1
    assert done.stderr.count("was not found") == 1


def test_a_status_that_is_watched(lemonpod_server: LemonpodServer) -> None:
    arguments = ["status", "--watch", "--every", "0.1", "--port", str(lemonpod_server.port)]
    with Terminal(arguments, lemonpod_server.environ) as status:
        status.until("No model is loaded")
        lemonpod_server.load("user.tiny")
        status.until("user.tiny")
        status.type(CTRL_C)
        assert status.process.wait(10) == 0


def test_a_status_that_a_program_watches(lemonpod_server: LemonpodServer) -> None:
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "lemonpod", "status", "--watch", "--json", "--every", "0.1"),
            *("--port", str(lemonpod_server.port)),
        ],
        env=lemonpod_server.environ,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        looks = [json.loads(watching.stdout.readline()) for _ in range(2)]
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=10)

    assert [look["engines"] for look in looks] == [[], []]
    assert watching.returncode == 0
