"""Those who wait for one engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from lemonpod.engine.failure import again
from lemonpod.errors import LemonpodError


class Releasable(Protocol):
    def release(self) -> None: ...


L = TypeVar("L", bound=Releasable)


class Tickets(Generic[L]):
    """Whoever waits gets a lease, an error, or None: then he is to ask for the model anew."""

    def __init__(self) -> None:
        self._open: list[asyncio.Future[L | None]] = []

    def __len__(self) -> int:
        return len(self._open)

    async def wait(self, patience: float, may_go_on: Callable[[], bool]) -> L | None:
        """Raises TimeoutError after `patience` seconds, unless the wait may go on then."""
        ticket: asyncio.Future[L | None] = asyncio.get_running_loop().create_future()
        self._open.append(ticket)
        try:
            await asyncio.wait({ticket}, timeout=max(patience, 0.0))
            if not ticket.done() and not may_go_on():
                raise TimeoutError
            return await ticket
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
