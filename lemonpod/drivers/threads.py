"""Blocking calls made from the event loop.

Each runs in a daemon thread of its own: one that hangs takes no other's place, and none keeps the program
from ending. Making a thread costs a hundredth of the shortest call that is made here.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from lemonpod.drivers.runtime import Halt
from lemonpod.engine.tasks import finish

CLOSE_TIMEOUT: Final = 5.0
"""For calls that nobody waits for any more; each is bounded by itself."""

T = TypeVar("T")


class Threads:
    """The threads of one owner, who waits for them at its end. For use in one event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers = itertools.count(1)
        self._running: dict[threading.Thread, asyncio.Future[Any]] = {}

    async def run(self, work: Callable[[], T], *, halt: Halt | None = None) -> T:
        """The outcome of `work`. A cancelled caller ends it by its halt and goes when it has ended; without
        one the work is left to itself."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if error is not None:
                outcome.set_exception(error)
                outcome.exception()  # looked at, if nobody else does
            else:
                outcome.set_result(result)  # type: ignore[arg-type]  # None only where T is

        def body() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(settle, result, error)

        thread = threading.Thread(target=body, name=f"{self._name}-{next(self._numbers)}", daemon=True)
        self._running = {one: end for one, end in self._running.items() if one.is_alive()}
        thread.start()
        self._running[thread] = outcome
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            if halt is not None:
                halt.call()
                await finish(_ended(outcome))
            raise

    async def aclose(self) -> None:
        """Wait for what still runs, not for ever."""
        if ends := [end for end in self._running.values() if not end.done()]:
            await asyncio.wait(ends, timeout=CLOSE_TIMEOUT)
        for thread, end in self._running.items():
            if end.done():  # it has told its outcome, and does nothing more
                thread.join()


async def _ended(outcome: asyncio.Future[Any]) -> None:
    await asyncio.wait({outcome})


class Funnel:
    """Brings what a thread produces into the event loop: all that came meanwhile at once.

    A thread that is faster than the loop waits, so that a flood of output stays in the thread.
    """

    def __init__(self, take: Callable[[list[bytes]], None], *, room: int) -> None:
        """`take` is called in the loop of the caller; beyond `room` bytes `put` waits for it."""
        self._take = take
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._drained = threading.Event()
        self._waiting: list[bytes] = []
        self._size = 0

    def put(self, items: list[bytes]) -> None:
        """For any thread."""
        with self._lock:
            first = not self._waiting
            self._waiting += items
            self._size += sum(map(len, items))
            full = self._size > self._room
            if full:
                self._drained.clear()
        if first and items:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.drain)
        if full:
            self._drained.wait(timeout=1.0)  # bounded: the loop may have ended

    def drain(self) -> None:
        """Hand over what waits; for the loop."""
        with self._lock:
            items, self._waiting, self._size = self._waiting, [], 0
            self._drained.set()
        if items:
            self._take(items)
