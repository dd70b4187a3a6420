"""What a way to answer is: it hears of an engine's answer, piece by piece, and tells the client of it."""

from __future__ import annotations

from typing import Protocol

from lemonpod.errors import LemonpodError
from lemonpod.gateway.data.activity import Ending
from lemonpod.gateway.data.client import ClientConnection
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.errors import Answer
from lemonpod.gateway.stats import Stats, Usage
from lemonpod.launch.plan import LaunchPlan


class Turn(Protocol):
    """The request that is answered, and what its client expects."""

    client: ClientConnection
    request: Request
    plan: LaunchPlan
    name: str
    """The model's, as the client asked for it or else our own, which the answer is to carry too."""
    started: float
    status: int | None
    usage: Usage
    sent: int
    """Bytes of the body."""

    @property
    def wants_done(self) -> bool:
        """Its event streams end with `data: [DONE]`."""

    @property
    def wants_output(self) -> bool:
        """An answer without a body is no answer: a sound, a shape."""

    @property
    def output_type(self) -> bytes | None:
        """The output's media type, as far as the request says it."""

    @property
    def heartbeat(self) -> float: ...

    @property
    def stats(self) -> Stats: ...

    def become(self, way: Way, begun: bytes) -> None:
        """Go on in another way, to which these bytes are to be told."""

    def finish(self, ending: Ending = Ending.COMPLETE, *, keep: bool = True) -> None:
        """The answer is out."""

    def fail(self, error: LemonpodError) -> None:
        """Answer with the error, where no answer has begun."""

    def refuse(self, answer: Answer) -> None:
        """Answer so, where no answer has begun."""


class Way:
    """One way to answer."""

    __slots__ = ("_turn",)

    is_over = False
    """Nothing that the engine may still send matters."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def piece(self, data: bytes) -> None:
        """All that came of the engine's body at once."""

    def flush(self) -> None:
        """There is nothing of the body for now: send what was kept for it."""

    def end(self) -> None:
        """The engine's answer is whole."""

    def broken(self, error: LemonpodError) -> None:
        """It will never be."""
        self._turn.fail(error)

    def close(self) -> None:
        """Called once, however the answer ended."""

    def probe(self) -> bool:
        """Send something that means nothing, or return False where nothing can be sent."""
        return False

    def tick(self, now: float) -> None: ...
