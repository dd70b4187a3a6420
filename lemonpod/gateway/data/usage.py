"""What an answer used and how quickly it came, read in passing.

Only what tells it is ever decoded, and of a stream only once it has ended.
"""

from __future__ import annotations

import json
import re
from typing import Final

from lemonpod.gateway.data.words import SOME_WORDS
from lemonpod.gateway.sse import EventStream
from lemonpod.gateway.stats import Usage, usage_of

# In a string their quotes would be escaped.
_USAGE: Final = b'"usage"'
_TIMINGS: Final = b'"timings"'
_OBJECT: Final = re.compile(rb"\s{0,8}:\s{0,8}(?=\{)")
_MAX_TOLD: Final = 4096
"""More than any engine tells about one answer."""
_DECODER: Final = json.JSONDecoder()


def usage_in(body: bytes) -> Usage:
    """What a JSON answer says that it used."""
    return usage_of(_object(_last(_USAGE, body)), _object(_last(_TIMINGS, body)))


class StreamMeter:
    """Follows one event stream, segment by segment."""

    def __init__(self) -> None:
        self.events = EventStream()
        self.words = 0
        """Events with words in them: about one for each token."""
        self.first_words: float | None = None
        """When the first ones came, by the clock of `feed`."""
        self._last_words = 0.0
        self._usual = b'"content":"'
        """What the words came behind the last time."""
        self._usage = b""
        self._timings = b""

    def another(self, now: float) -> None:
        """Take note of one more event, between two others, of which it is known that it holds words alone."""
        self.words += 1
        self._last_words = now
        if self.first_words is None:
            self.first_words = now

    def feed(self, segment: bytes, now: float) -> None:
        """Follow what has come at the time `now`."""
        was_between = self.events.between_events
        seen = self.events.feed(segment)
        new = 1 if was_between and self._has_one(segment) else self._count(seen, len(seen) - len(segment))
        if new:
            self.words += new
            self._last_words = now
            if self.first_words is None:
                self.first_words = now
        if self._usage or _USAGE in seen:
            self._usage = _followed(self._usage, _USAGE, seen, segment)
        if self._timings or _TIMINGS in seen:
            self._timings = _followed(self._timings, _TIMINGS, seen, segment)

    def usage(self, started: float) -> Usage:
        """What the answer to a request of that time has used so far: as it tells, or else as it was seen."""
        told = usage_of(_object(self._usage), _object(self._timings))
        if self.first_words is None:
            return told
        took = self._last_words - self.first_words
        seen = (self.words - 1) / took if took > 0 else None
        return told._replace(
            output_tokens=self.words if told.output_tokens is None else told.output_tokens,
            first_token=self.first_words - started,
            speed=seen if told.speed is None else told.speed,
        )

    def _has_one(self, segment: bytes) -> bool:
        """Whether it is one event, with words where they stood before."""
        at = segment.find(self._usual)
        if at < 0 or segment.find(b"\n\n") != len(segment) - 2:
            return False
        end = at + len(self._usual)
        return end < len(segment) and not segment.startswith(b'"', end)

    def _count(self, seen: bytes, known: int) -> int:
        new = [match for match in SOME_WORDS.finditer(seen) if match.end() > known]
        if new:
            self._usual = new[-1][0][:-1]
        return len(new)


def _followed(told: bytes, key: bytes, seen: bytes, segment: bytes) -> bytes:
    """The start of the last object that stands at `key`: what has come of it, and whatever follows it."""
    if key in seen and (newest := _last(key, seen)):
        return newest
    return told + segment[: _MAX_TOLD - len(told)] if told and len(told) < _MAX_TOLD else told


def _last(key: bytes, data: bytes) -> bytes:
    at = data.rfind(key)
    while at >= 0:
        if match := _OBJECT.match(data, at + len(key)):
            return data[match.end() : match.end() + _MAX_TOLD]
        at = data.rfind(key, 0, at)
    return b""


def _object(text: bytes) -> object:
    """The object that the text starts with."""
    if not text:
        return None
    try:
        return _DECODER.raw_decode(text.decode("utf-8", "replace"))[0]
    except (ValueError, RecursionError):
        return None
