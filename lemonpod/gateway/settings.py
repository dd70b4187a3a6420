"""What an operator can set about the network edge; sizes in bytes, times in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    api_key: str | None = field(default=None, repr=False)
    """Opens the API routes; None leaves them open."""
    admin_api_key: str | None = field(default=None, repr=False)
    """Opens everything; None stands for the API key."""
    allowed_origins: tuple[str, ...] = ()
    """Web origins besides this machine's own that may call; `*` for all."""
    max_body: int = 64 * MIB
    """A JSON body, inflated: room for a chat with a few pictures in it."""
    max_upload: int = 512 * MIB
    """A multipart body: an hour of uncompressed audio."""
    max_frame: int = 64 * MIB
    """One frame of a WebSocket. It is never held in memory as a whole."""
    body_timeout: float = 30.0
    """How long a client may pause in the middle of its request's body."""
    write_timeout: float = 300.0
    """How long a client may read nothing of what is left of its answer. Long, since the two kernels pass on
    what a slow one reads in big steps."""
    connect_timeout: float = 5.0
    """From opening a connection to an engine until it is accepted; the engine is on this machine."""
    heartbeat: float = 15.0
    """After so much silence in an event stream a comment is sent, so that no middlebox gives up; 0: never."""
    slow_request: float = 1.0
    """A request that went well is logged if it took so long, else only with the level `debug`; 0: always."""
