"""One request of a client, as the parser told of it."""

from __future__ import annotations

from typing import Final

from yarl import URL

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.data.usual import asked
from lemonpod.gateway.headers import Field

_VERSIONS: Final = frozenset({"1.0", "1.1"})


def _check_target(method: bytes, target: bytes) -> None:
    """Raise unless it is a whole URL, or the star of OPTIONS (RFC 9112 section 3.2)."""
    try:
        host = URL(target.decode("utf-8", "surrogateescape"), encoded=True).raw_host
    except ValueError:
        host = None
    if not host and (method, target) != (b"OPTIONS", b"*"):
        raise MalformedRequestError("The request's target is no path")


class Request:
    """Its head, and as much of its body as has come and nobody has taken yet."""

    __slots__ = (
        "asked",
        "awaits_continue",
        "content_length",
        "ended",
        "fields",
        "has_news",
        "is_old",
        "is_socket",
        "keep_alive",
        "known",
        "method",
        "origin",
        "pieces",
        "size",
        "target",
    )

    def __init__(
        self, method: bytes, target: bytes, version: str, fields: list[Field], *, keep_alive: bool
    ) -> None:
        """Raises MalformedRequestError for what two programs might read in two ways."""
        if version not in _VERSIONS:
            raise MalformedRequestError("The request's HTTP version must be 1.1 or 1.0")
        self.method = method
        self.target = target
        self.fields = fields
        self.is_old = version == "1.0"
        self.keep_alive = keep_alive
        self.is_socket = False
        """It offers a WebSocket where there is one: all that comes behind its head is its body."""
        self.asked, length = asked(fields)
        """What the fields say, the length aside."""
        self.known = known = self.asked.known
        self.origin: bytes | None = None
        """The web origin that was granted access."""
        self.pieces: list[bytes] = []
        self.size = 0
        self.ended = False
        self.has_news = False
        """More of the body has come, or its end."""
        if b"host" not in known and not self.is_old:
            raise MalformedRequestError("The request has no Host")
        if method == b"CONNECT":
            raise MalformedRequestError("This server is no proxy")
        if not target.startswith(b"/"):
            _check_target(method, target)
        if self.is_old and self.asked.is_chunked:
            raise MalformedRequestError("The request is chunked, so its HTTP version must be 1.1")
        # The parser lets nothing through but one number.
        self.content_length = int(length or 0)
        self.awaits_continue = known.get(b"expect", b"").lower() == b"100-continue" and not self.is_old

    @property
    def path(self) -> str:
        """As it came, without the query."""
        return self.target.partition(b"?")[0].decode("latin-1")

    @property
    def shown(self) -> str:
        """Its method and path, for logs."""
        return f"{self.method.decode()} {self.path}"

    def text(self, key: bytes) -> str:
        """A header's value; empty where there is none."""
        return self.known.get(key, b"").decode("utf-8", "surrogateescape").strip()

    def take(self) -> bytes:
        """What has come of the body and was not taken before."""
        pieces = self.pieces
        if len(pieces) == 1:
            self.pieces = []
            return pieces[0]
        self.pieces = []
        return b"".join(pieces)

    def framing(self) -> bytes:
        """A request without more than this one's body: for a parser that is to go on with it."""
        line = b""
        if self.asked.is_chunked:
            line = b"Transfer-Encoding: chunked\r\n"
        elif self.content_length:
            line = b"Content-Length: %d\r\n" % self.content_length
        if not self.keep_alive:
            line += b"Connection: close\r\n"
        return b"POST / HTTP/1.1\r\n%b\r\n" % line
