"""Who answers a request of a client's connection, as that connection sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lemonpod.gateway.data.activity import Ending
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.errors import Answer


class Responder(Protocol):
    """Answers one request, and says `done` to its client when it has."""

    def start(self) -> None:
        """The head is there. May raise a LemonpodError, which is then the answer, as may `on_body`."""

    def on_body(self) -> None:
        """More of the body has come, or its end."""

    def pause(self) -> None:
        """The client reads more slowly than it is written to."""

    def resume(self) -> None: ...

    def probe(self) -> bool:
        """Send something that means nothing in the middle of the answer, or return False."""

    def tick(self, now: float) -> None: ...

    def lost(self, ending: Ending, told: Answer | None = None) -> None:
        """Nothing may be sent any more; `told` is what the connection answers in its stead."""


class Discard:
    """Reads the rest of a body whose answer is out."""

    def __init__(self, request: Request, done: Callable[[], None]) -> None:
        self._request = request
        self._done = done

    def start(self) -> None:
        pass

    def on_body(self) -> None:
        self._request.take()
        if self._request.ended:
            self._done()

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def probe(self) -> bool:
        return True

    def tick(self, now: float) -> None:
        pass

    def lost(self, ending: Ending, told: Answer | None = None) -> None:
        pass
