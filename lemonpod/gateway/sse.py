"""What must be known of an event stream to add to it without breaking it.

Bytes are looked at, never decoded: a character may be split between two chunks, and a lone bad byte must
pass. The stream itself is never held back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

PING: Final = b": ping\n\n"
DONE: Final = b"data: [DONE]\n\n"

# Line ends are \n, \r\n or \r (HTML standard, 9.2.5).
_BLANK_LINE: Final = (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n")
_DONE_LINE: Final = re.compile(rb"[\r\n]data: ?\[DONE\](?=[\r\n]|\Z)")
# Anywhere in an event: in a string its quotes would be escaped.
_TROUBLE: Final = re.compile(
    rb"[\r\n](?:error:|event: ?error)"
    rb'|[{,]\s{0,8}"error"\s{0,8}:\s{0,8}[{"]'
    rb'|"(?:object|type)"\s{0,8}:\s{0,8}"error"'
)
# Engines tell a failure in an `error` member, older llama.cpp servers in a line of its own.
_ERROR_LINE: Final = re.compile(rb'[\r\n](?:error:|event: ?error|data: ?\{\s{0,8}"error"\s{0,8}:\s{0,8}[{"])')
_TAIL: Final = 48
"""Enough to hold the start of any line that the patterns look for."""


class EventStream:
    """Follows one stream, chunk by chunk."""

    def __init__(self) -> None:
        self._tail = b"\n\n"
        self.done = False
        """`data: [DONE]` has passed."""
        self.trouble = b""
        """What passed before the segment that was the first to show an error; empty until then."""
        self.failed = False
        """An event that is one has."""

    @property
    def between_events(self) -> bool:
        """Whether a new event may start here."""
        return self._tail.endswith(_BLANK_LINE)

    def feed(self, chunk: bytes) -> bytes:
        """Follow `chunk`; returns it behind the end of what came before, so that nothing is split in it."""
        seen = self._tail + chunk
        if not self.done and b"[DONE]" in seen:
            self.done = _DONE_LINE.search(seen) is not None
        if not self.failed and b"error" in seen and tells_of_trouble(seen):
            self.trouble = self.trouble or self._tail
            self.failed = _ERROR_LINE.search(seen) is not None
        self._tail = seen[-_TAIL:]
        return seen

    def closing(self, *events: bytes) -> bytes:
        """What ends the stream properly with `events`, from wherever it stands."""
        missing = b"" if self.between_events else b"\n" if self._tail.endswith(b"\n") else b"\n\n"
        return b"".join((missing, *events))


def tells_of_trouble(event: bytes) -> bool:
    """Whether it holds an error, as a member of its object or in a line of its own."""
    return _TROUBLE.search(event) is not None


def error_event(envelope: Mapping[str, object]) -> bytes:
    """An error as the one event that OpenAI's clients understand after a 200."""
    return b"data: %s\n\n" % json.dumps(envelope).encode()
