"""An event loop whose clock jumps to the next timer as soon as nobody has anything to do."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(AssertionError):
    """Everybody waits, and no timer is left that could end it."""


class _Jump(selectors.SelectSelector):
    """Waits for nothing: the time that a wait would take has passed at once."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events and timeout is None:
            raise Deadlock
        if not events and timeout:
            self.now += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run. Raises Deadlock where nothing would ever happen any more."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
