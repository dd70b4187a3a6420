"""Those who wait for one engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import isfinite
from typing import Final, Generic, Protocol, TypeVar

from lemonpod.engine.failure import again
from lemonpod.errors import LemonpodError

_SHORTEST: Final = 0.001
"""A clock may say a moment before the end of a wait that it is not over."""


class Releasable(Protocol):
    def release(self) -> None: ...


L = TypeVar("L", bound=Releasable)


class Tickets(Generic[L]):
    """Whoever waits gets a lease, an error, or None: then he is to ask for the model anew."""

    def __init__(self) -> None:
        self._open: list[asyncio.Future[L | None]] = []

    def __len__(self) -> int:
        return len(self._open)

    async def wait(self, patience: Callable[[], float]) -> L | None:
        """Raises TimeoutError once `patience`, which says how many seconds are left, says that none are."""
        ticket: asyncio.Future[L | None] = asyncio.get_running_loop().create_future()
        self._open.append(ticket)
        try:
            while not ticket.done():
                if (left := patience()) <= 0.0:
                    raise TimeoutError
                await asyncio.wait({ticket}, timeout=max(left, _SHORTEST) if isfinite(left) else None)
            return ticket.result()
        except BaseException:
            if ticket.done() and not ticket.cancelled() and ticket.exception() is None:
                lease = ticket.result()
                if lease is not None:
                    lease.release()
            raise
        finally:
            self._open.remove(ticket)

    def serve(self, take: Callable[[], L]) -> None:
        """A lease for each, in the order in which they came."""
        for ticket in self._waiting():
            ticket.set_result(take())

    def send_on(self) -> None:
        """Let each ask anew."""
        for ticket in self._waiting():
            ticket.set_result(None)

    def fail(self, error: LemonpodError) -> None:
        """Tell each why it came to nothing, in an error of his own."""
        for ticket in self._waiting():
            ticket.set_exception(again(error))

    def _waiting(self) -> list[asyncio.Future[L | None]]:
        return [ticket for ticket in self._open if not ticket.done()]
