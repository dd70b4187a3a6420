"""What an answer used and how quickly it came, read in passing.

Only what tells it is ever decoded, and of a stream only once it has ended.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Final

from lemonpod.gateway.data.words import SOME_WORDS
from lemonpod.gateway.sse import EventStream
from lemonpod.gateway.stats import Usage, usage_of

_NAMES: Final = (b"usage", b"timings")
# In a string its quotes would be escaped.
_TOLD: Final = re.compile(rb'"(usage|timings)"\s{0,8}:\s{0,8}(?=\{)')
_MAX_TOLD: Final = 4096
"""More than any engine tells about one answer."""
_DECODER: Final = json.JSONDecoder()


def usage_in(body: bytes) -> Usage:
    """What a JSON answer says that it used."""
    told = {match[1]: body[match.end() : match.end() + _MAX_TOLD] for match in _TOLD.finditer(body)}
    return _read(told)


class StreamMeter:
    """Follows one event stream, segment by segment."""

    def __init__(self) -> None:
        self.events = EventStream()
        self.words = 0
        """Events with words in them: about one for each token."""
        self.first_words: float | None = None
        """When the first ones came, by the clock of `feed`."""
        self._last_words = 0.0
        self._told: dict[bytes, bytes] = {}

    def feed(self, segment: bytes, now: float) -> None:
        """Follow what has come at the time `now`."""
        seen = self.events.feed(segment)
        known = len(seen) - len(segment)
        new = sum(match.end() > known for match in SOME_WORDS.finditer(seen))
        if new:
            self.words += new
            self._last_words = now
            if self.first_words is None:
                self.first_words = now
        if self._told or b'"usage"' in seen or b'"timings"' in seen:
            self._note(seen, segment)

    def usage(self, started: float) -> Usage:
        """What the answer to a request of that time has used so far: as it tells, or else as it was seen."""
        told = _read(self._told)
        if self.first_words is None:
            return told
        took = self._last_words - self.first_words
        seen = (self.words - 1) / took if took > 0 else None
        return replace(
            told,
            output_tokens=self.words if told.output_tokens is None else told.output_tokens,
            first_token=self.first_words - started,
            speed=seen if told.speed is None else told.speed,
        )

    def _note(self, seen: bytes, segment: bytes) -> None:
        for name, text in self._told.items():
            if len(text) < _MAX_TOLD:  # its end may be in this segment
                self._told[name] = (text + segment)[:_MAX_TOLD]
        for match in _TOLD.finditer(seen):
            self._told[match[1]] = seen[match.end() : match.end() + _MAX_TOLD]


def _read(told: dict[bytes, bytes]) -> Usage:
    usage, timings = (_object(told.get(name, b"")) for name in _NAMES)
    return usage_of(usage, timings)


def _object(text: bytes) -> object:
    """The object that the text starts with."""
    try:
        return _DECODER.raw_decode(text.decode("utf-8", "replace"))[0]
    except (ValueError, RecursionError):
        return None
