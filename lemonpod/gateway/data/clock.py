"""Time in coarse steps: one timer for all connections, where each request would need several."""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from typing import Final, Protocol

NEVER: Final = float("inf")


class Ticking(Protocol):
    def tick(self, now: float) -> None:
        """Take note of the time; it may be late by one step."""


class Clock:
    """Ticks while anybody listens."""

    def __init__(self, step: float) -> None:
        self.now = 0.0
        """The loop's time, as of the last step."""
        self.ours = b""
        """The lines that every answer's head has, with the date."""
        self._step = step
        self._loop = asyncio.get_running_loop()
        self.exact = self._loop.time
        """Tells the loop's time."""
        self._listeners: dict[Ticking, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def join(self, listener: Ticking) -> None:
        self._listeners[listener] = None
        if self._timer is None:
            self._turn()

    def leave(self, listener: Ticking) -> None:
        """Idempotent."""
        self._listeners.pop(listener, None)

    def stop(self) -> None:
        """For good."""
        self._listeners.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        loop = self._loop
        self.now = self.exact()
        date = formatdate(usegmt=True)
        self.ours = f"Server: lemonpod\r\nDate: {date}\r\nVary: Origin\r\n".encode()
        self._timer = loop.call_later(self._step, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if not self._listeners:
            return
        self._turn()
        for listener in list(self._listeners):
            listener.tick(self.now)
