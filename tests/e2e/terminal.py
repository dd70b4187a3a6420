"""A program on a pseudo-terminal, typed at as a person would."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.conftest import REPOSITORY, wait_until

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"


class Terminal:
    """`lemonpod` with these arguments; what it shows is kept without escape sequences."""

    def __init__(self, arguments: list[str], environ: Mapping[str, str]) -> None:
        self.shown = ""
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lemonpod", *arguments],
            env={**environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "50"},
            cwd=REPOSITORY,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C, once the program waits for what is typed: Python may overlook one just before."""

        def sleeps() -> bool:
            return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"

        wait_until(sleeps, within=10, what="it waits")
        self.type(CTRL_C)

    def until(self, pattern: str, *, within: float = 30) -> str:
        """What is shown up to the pattern, which later calls no longer see."""
        deadline = time.monotonic() + within
        while (match := re.search(pattern, self.shown)) is None:
            readable, _, _ = select.select([self._master], [], [], max(deadline - time.monotonic(), 0))
            assert readable, f"not shown within {within} s: {pattern}, but {self.shown!r}"
            try:
                data = os.read(self._master, 65536)
            except OSError:
                data = b""
            assert data, f"it ended before it showed {pattern}: {self.shown!r}"
            self.shown += _ESCAPES.sub("", data.decode("utf-8", "replace"))
        shown, self.shown = self.shown[: match.end()], self.shown[match.end() :]
        return shown


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
