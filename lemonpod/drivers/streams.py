"""Readers of what container engines stream: pure, and fed with chunks that end anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

_HEADER: Final = 8  # one byte of which stream, three of nothing, four of length
_MAX_LINE: Final = 1 << 20


class Demultiplexer:
    """Takes the frame headers out of a log, in which both streams of a container share one connection."""

    def __init__(self) -> None:
        self._header = b""
        self._left = 0

    def feed(self, chunk: bytes) -> bytes:
        """What the container wrote, as far as `chunk` tells."""
        written = []
        rest = memoryview(chunk)
        while rest:
            if self._left:
                written.append(rest[: self._left])
                rest = rest[len(written[-1]) :]
                self._left -= len(written[-1])
                continue
            missing = _HEADER - len(self._header)
            self._header += rest[:missing]
            rest = rest[missing:]
            if len(self._header) == _HEADER:
                self._left = int.from_bytes(self._header[4:], "big")
                self._header = b""
        return b"".join(written)


class JsonObjects:
    """The objects of a stream of JSON lines."""

    def __init__(self) -> None:
        self._line = b""

    def feed(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        """Those that are whole now; a line that is no object is skipped."""
        *lines, self._line = (self._line + chunk).split(b"\n")
        if len(self._line) > _MAX_LINE:
            self._line = b""
        yield from filter(None, map(_object, lines))

    def end(self) -> Iterator[dict[str, Any]]:
        """The last one, which may be without an end of line."""
        line, self._line = self._line, b""
        yield from filter(None, [_object(line)])


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
