"""A socket of the data path, to a client or to an engine.

What is sent goes out once everything that came at the same time has been read. Whoever waits at the other
ends is woken once and not for each message: to wake a process costs as much as a request's other work.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, cast

log = logging.getLogger(__name__)

_MAX_UNSENT: Final = 64 << 10
"""More goes out at once."""


class Outbox:
    """The sockets that something was sent to in this turn of the loop."""

    __slots__ = ("_later", "wires")

    def __init__(self) -> None:
        self._later = asyncio.get_running_loop().call_soon
        self.wires: list[Wire] = []

    def call(self) -> None:
        """Empty it at the end of this turn."""
        self._later(self._flush)

    def _flush(self) -> None:
        wires, self.wires = self.wires, []
        for wire in wires:
            try:
                wire.flush()
            except Exception:
                log.exception("a connection could not be written to")


class Wire(asyncio.Protocol):
    """One socket."""

    __slots__ = ("_unsent", "outbox", "transport")

    transport: asyncio.Transport

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._unsent = b""

    def send(self, data: bytes) -> None:
        """Send it soon, after what was sent before."""
        if not self._unsent:
            outbox = self.outbox
            if not outbox.wires:
                outbox.call()
            outbox.wires.append(self)
            self._unsent = data
        else:
            self._unsent += data
        if len(self._unsent) > _MAX_UNSENT:
            self.flush()

    def flush(self) -> None:
        """Send it now."""
        unsent = self._unsent
        if unsent:
            self._unsent = b""
            if not self.transport.is_closing():
                self.transport.write(unsent)

    def close(self) -> None:
        """End it after what was sent."""
        self.flush()
        self.transport.close()

    def end_sending(self) -> None:
        """Say that no more will be sent, if that is not said yet."""
        if not self.transport.is_closing():
            self.flush()
            self.transport.write_eof()

    def abort(self) -> None:
        """End it at once: what has not been sent is lost."""
        self._unsent = b""
        self.transport.abort()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent) or self.transport.get_write_buffer_size() > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
