"""What all streams of events have in common: their head, their chunks, and what fills their silence."""

from __future__ import annotations

from typing import Final

from lemonpod.gateway.data.activity import Ending
from lemonpod.gateway.data.heads import closing_lines, status_line
from lemonpod.gateway.data.way import Turn, Way
from lemonpod.gateway.headers import AS_IT_COMES

CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
_EVENT_HEADERS: Final = "".join(f"{name}: {value}\r\n" for name, value in AS_IT_COMES.items()).encode()


class Streamed(Way):
    """Events in chunks, or up to the end of the connection."""

    __slots__ = ("_chunked", "_clock", "_last", "_unsent")

    def __init__(self, turn: Turn, status: int, lines: bytes) -> None:
        """`lines` are the header lines that are its own, each with its end."""
        super().__init__(turn)
        request = turn.request
        self._chunked = not request.is_old
        if request.is_old:
            request.keep_alive = False
        self._clock = turn.client.clock
        self._last = self._clock.now
        """When something was sent."""
        self._unsent = b"%b%b%b%b%b" % (
            status_line(status),
            lines,
            _EVENT_HEADERS,
            CHUNKED if self._chunked else b"",
            closing_lines(request, self._clock, stream=True),
        )

    def flush(self) -> None:
        if self._unsent:
            self._turn.client.write(self._unsent)
            self._unsent = b""

    def tick(self, now: float) -> None:
        heartbeat = self._turn.heartbeat
        if heartbeat and now - self._last >= heartbeat and not self._turn.client.paused:
            self.probe()

    def _finish(self, ending: Ending) -> None:
        """The stream is whole."""
        if self._chunked:
            self._turn.client.write(self._unsent + LAST_CHUNK)
        self._turn.finish(ending, keep=self._chunked)

    def _send(self, data: bytes) -> None:
        turn = self._turn
        turn.sent += len(data)
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._unsent:
            turn.client.write(self._unsent + data)
            self._unsent = b""
        else:
            turn.client.send(data)
        self._last = self._clock.now
