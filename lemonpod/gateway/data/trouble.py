"""Errors in the middle of an engine's event stream, told without what they say of this machine."""

from __future__ import annotations

import re
from typing import Final

from lemonpod.gateway.data.rename import EventRenamer
from lemonpod.gateway.sse import tells_of_trouble
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.scrub import scrub

_MAX_HELD: Final = 64 << 10
_EVENT_END: Final = re.compile(rb"\n\r?\n|\r\r")


class EventScrubber:
    """Fed from the segment on that showed the first error; each event is kept back until it is whole."""

    def __init__(self, plan: LaunchPlan, before: bytes, renamer: EventRenamer | None = None) -> None:
        """`before` is the end of what has passed, in which the first error may have begun."""
        self._plan = plan
        self._renamer = renamer
        self._before = before
        self._held = b""
        self._is_known = False
        """The event that has begun is one with an error, whatever is still to come of it."""

    def feed(self, segment: bytes) -> bytes:
        """What of the stream can be sent."""
        data, at = self._held + segment, 0
        out = []
        for end in _EVENT_END.finditer(data):
            out.append(self._told(data[at : end.end()]))
            self._before, self._is_known = b"\n", False
            at = end.end()
        self._held = data[at:]
        if len(self._held) > _MAX_HELD:
            out.append(self.end())
        return b"".join(out)

    def end(self) -> bytes:
        """What is left of an event that has no end yet."""
        held, self._held = self._held, b""
        return self._told(held)

    def _told(self, event: bytes) -> bytes:
        self._is_known = self._is_known or tells_of_trouble(self._before + event)
        if self._is_known:
            text = event.decode("utf-8", "surrogateescape")
            event = scrub(text, self._plan).encode("utf-8", "surrogateescape")
        return event if self._renamer is None else self._renamer.feed(event)
