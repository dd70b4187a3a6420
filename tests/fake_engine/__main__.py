"""The process around the routes: flags, output, children, signals, and when it listens."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import MISSING, fields

from tests.fake_engine.habits import Habits
from tests.fake_engine.server import Server

_HOLDS_THE_PIPE = "import signal, time; signal.signal(signal.SIGTERM, {on_term}); time.sleep(600)"


def main() -> None:
    parser = argparse.ArgumentParser(prog="fake_engine")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--model", default="fake")
    parser.add_argument("--exit-after", type=float, help="seconds until it ends with --exit-code")
    parser.add_argument("--exit-code", type=int, default=0)
    parser.add_argument("--ignore-sigterm", action="store_true")
    parser.add_argument("--spawn-child", action="store_true", help="a grandchild that holds the output pipe")
    parser.add_argument("--child-ignores-sigterm", action="store_true")
    parser.add_argument("--fork-and-exit", action="store_true", help="the server lives in a detached child")
    parser.add_argument("--no-listen", action="store_true")
    parser.add_argument("--bind-failure-ignored", action="store_true", help="sleep on when the port is taken")
    parser.add_argument("--chatty", action="store_true", help="flood the output without end")
    parser.add_argument("--garbage", action="store_true", help="long lines, \\r, NUL, broken UTF-8, colours")
    parser.add_argument("--say", help="the first line of its output")
    for habit in fields(Habits):
        flag = "--" + habit.name.replace("_", "-")
        default = habit.default if habit.default is not MISSING else None
        if default is False:
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=type(default), default=default)
    flags = parser.parse_args()

    if flags.say:
        say(flags.say)
    if flags.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if flags.fork_and_exit and os.fork():
        sys.exit(flags.exit_code)
    if flags.fork_and_exit:
        os.setsid()
    if flags.spawn_child:
        on_term = "signal.SIG_IGN" if flags.child_ignores_sigterm else "signal.SIG_DFL"
        child = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _HOLDS_THE_PIPE.format(on_term=on_term)],
            start_new_session=True,
        )
        say(f"child {child.pid}")
    say(f"fake engine {flags.model} starting")
    if flags.garbage:
        print_garbage()
    if flags.chatty:
        threading.Thread(target=flood, daemon=True).start()
    if flags.exit_after is not None:
        after(flags.exit_after, lambda: os._exit(flags.exit_code))
    if flags.no_listen:
        time.sleep(600)

    habits = Habits(**{habit.name: getattr(flags, habit.name) for habit in fields(Habits)})
    family = socket.AF_INET6 if ":" in flags.host else socket.AF_INET
    try:
        listener = socket.create_server(
            (flags.host, flags.port), family=family, backlog=256, dualstack_ipv6=flags.host == "::"
        )
    except OSError as error:
        say(f"cannot listen on {flags.host}:{flags.port}: {error}")
        if not flags.bind_failure_ignored:
            sys.exit(1)
        time.sleep(600)
    say(f"listening on {flags.host}:{listener.getsockname()[1]}")
    Server(listener, habits, model=flags.model).serve_forever()


def say(text: str) -> None:
    """One line, written at once."""
    os.write(1, f"{text}\n".encode())


def after(seconds: float, action: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()


def flood() -> None:
    line = b"chatter " * 12 + b"\n"
    while True:
        os.write(1, line * 100)


def print_garbage() -> None:
    os.write(1, b"x" * 70_000 + b"\n")
    os.write(1, b"\rloading 1%\rloading 2%\rloading 100%\r\n")
    os.write(1, b"\xff\xfe broken\n")
    os.write(2, b"nul\x00byte and \x1b[1;31mred\x1b[0m\n")


if __name__ == "__main__":
    main()
