"""One request of a client, as the parser told of it."""

from __future__ import annotations

from typing import Final

from yarl import URL

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.headers import Field
from lemonpod.gateway.headers import known as known_values

_VERSIONS: Final = frozenset({"1.0", "1.1"})
# Of two, an engine might believe the other one.
_ONCE: Final = (b"host", b"content-type", b"content-encoding", b"content-range", b"expect", b"user-agent")


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
        "awaits_continue",
        "content_length",
        "ended",
        "fields",
        "has_news",
        "is_old",
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
        self.method = method
        self.target = target
        self.fields = fields
        self.is_old = version == "1.0"
        self.keep_alive = keep_alive
        self.known = known = known_values(fields)
        """By the small name; several values are one list."""
        self.origin: bytes | None = None
        """The web origin that was granted access."""
        self.pieces: list[bytes] = []
        self.size = 0
        self.ended = False
        self.has_news = False
        """More of the body has come, or its end."""
        if version not in _VERSIONS:
            raise MalformedRequestError("The request's HTTP version must be 1.1 or 1.0")
        if len(known) != len(fields):
            keys = [key for key, _, _ in fields]
            for key in _ONCE:
                if keys.count(key) > 1:
                    raise MalformedRequestError(f"The header {key.decode()} comes twice")
        if b"host" not in known and not self.is_old:
            raise MalformedRequestError("The request has no Host")
        if method == b"CONNECT":
            raise MalformedRequestError("This server is no proxy")
        if not target.startswith(b"/"):
            _check_target(method, target)
        coding = known.get(b"transfer-encoding")
        if coding is not None and (coding.strip().lower() != b"chunked" or self.is_old):
            raise MalformedRequestError("The request's Transfer-Encoding must be chunked, and its HTTP 1.1")
        # The parser lets nothing through but one number.
        self.content_length = int(known.get(b"content-length", b"0"))
        self.awaits_continue = known.get(b"expect", b"").lower() == b"100-continue" and not self.is_old

    @property
    def is_chunked(self) -> bool:
        return b"transfer-encoding" in self.known

    @property
    def shown(self) -> str:
        """Its method and path, for logs."""
        return f"{self.method.decode()} {self.target.partition(b'?')[0].decode('latin-1')}"

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
        if self.is_chunked:
            line = b"Transfer-Encoding: chunked\r\n"
        elif self.content_length:
            line = b"Content-Length: %d\r\n" % self.content_length
        if not self.keep_alive:
            line += b"Connection: close\r\n"
        return b"POST / HTTP/1.1\r\n%b\r\n" % line
