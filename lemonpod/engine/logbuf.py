"""The last of an engine's output: bounded, with any number of readers that never slow the engine.

Lines are kept as the bytes that came; they are decoded and cleaned when somebody reads them.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from lemonpod.engine.api import LogLine

MAX_LINES: Final = 5000
MAX_BYTES: Final = 1 << 20
MAX_LINE_BYTES: Final = 16 << 10

# CSI and OSC sequences, then any other two-character escape (ECMA-48).
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
# All of C0 and C1 but the tab: a lone U+009B starts a sequence as well.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


class _Kept(NamedTuple):
    time: float
    raw: bytes


class LogBuffer:
    """A ring of lines. For use in one event loop."""

    def __init__(
        self,
        *,
        max_lines: int = MAX_LINES,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
        copy: Callable[[Sequence[bytes]], None] | None = None,
    ) -> None:
        """`copy` is given all lines as well."""
        self._lines: deque[_Kept] = deque()
        self._first = 0
        """The `seq` of the oldest line that is kept."""
        self._bytes = 0
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._clock = clock
        self._copy = copy
        self._closed = False
        self._news = asyncio.Event()

    def extend(self, lines: Sequence[bytes]) -> None:
        """Keep these lines, and forget the oldest where there are too many."""
        now = self._clock()
        self._lines.extend([_Kept(now, raw) for raw in lines])
        self._bytes += sum(map(len, lines))
        while len(self._lines) > self._max_lines or (self._bytes > self._max_bytes and len(self._lines) > 1):
            self._bytes -= len(self._lines.popleft().raw)
            self._first += 1
        self._tell()
        if self._copy is not None:
            self._copy(lines)

    def close(self) -> None:
        """No more lines come: followers end."""
        self._closed = True
        self._tell()

    def tail(self, count: int) -> tuple[str, ...]:
        """The last `count` lines, oldest first."""
        skipped = max(0, len(self._lines) - count)
        return tuple(clean(kept.raw) for kept in islice(self._lines, skipped, None))

    async def read(self, *, tail: int | None = None, follow: bool = False) -> AsyncGenerator[LogLine, None]:
        """The newest `tail` lines (all, if None), then with `follow` what comes until `close`."""
        position = self._first
        if tail is not None:
            position += max(0, len(self._lines) - tail)
        while True:
            position = max(position, self._first)  # a slow reader has lost the lines between
            if position < self._first + len(self._lines):
                kept = self._lines[position - self._first]
                yield LogLine(position, kept.time, clean(kept.raw))
                position += 1
            elif not follow or self._closed:
                return
            else:
                await self._news.wait()

    def _tell(self) -> None:
        # Whoever waits now wakes; whoever waits from now on waits for the next news.
        self._news.set()
        self._news = asyncio.Event()


class LineSplitter:
    """Cuts a stream of bytes into lines at `\\n`, `\\r` and both, however the stream was chunked.

    Empty lines are dropped: a progress bar opens each of its states with a return.
    """

    def __init__(
        self, emit: Callable[[Sequence[bytes]], None], *, max_line_bytes: int = MAX_LINE_BYTES
    ) -> None:
        self._emit = emit
        self._max = max_line_bytes
        self._open = bytearray()
        """The start of a line whose end is still to come."""
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        first, *others = data.replace(b"\r", b"\n").split(b"\n")
        self._add(first)
        if others:
            rest = others.pop()
            lines = [self._take(), *map(self._cut, others)]
            self._emit([line for line in lines if line])
            self._add(rest)

    def flush(self) -> None:
        """The stream has ended: what is left is a line as well."""
        if self._open:
            self._emit([self._take()])

    def _add(self, piece: bytes) -> None:
        room = self._max - len(self._open)
        self._open += piece[:room]
        self._dropped += max(0, len(piece) - room)

    def _take(self) -> bytes:
        line = bytes(self._open) + _mark(self._dropped)
        self._open.clear()
        self._dropped = 0
        return line

    def _cut(self, line: bytes) -> bytes:
        return line if len(line) <= self._max else line[: self._max] + _mark(len(line) - self._max)


def _mark(dropped: int) -> bytes:
    return f" … [{dropped} more bytes cut]".encode() if dropped else b""


def clean(raw: bytes) -> str:
    """Text that any terminal and any JSON reader can take: no escapes, no control characters."""
    return _CONTROLS.sub("", _ESCAPES.sub("", raw.decode("utf-8", "replace")))
