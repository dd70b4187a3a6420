"""How a WebSocket begins: what a client must say, and what goes on to the engine (RFC 6455 section 4)."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote_plus

from lemonpod.errors import MalformedRequestError, UpstreamError
from lemonpod.gateway.auth import API_KEY, carries_key
from lemonpod.gateway.data.relay import Target
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.data.usual import Told
from lemonpod.gateway.errors import NO_RETRY, Answer, typed_envelope
from lemonpod.gateway.headers import as_lines, known, to_engine
from lemonpod.gateway.routes import SOCKET_PATHS, engine_target
from lemonpod.launch.plan import LaunchPlan

OURS: Final = "lemonade-realtime"
"""The subprotocol that Lemonade's own clients offer, which is for us to choose."""
NO_OFFER: Final = Answer(
    426,
    typed_envelope("This endpoint is a WebSocket", "invalid_request"),
    {**NO_RETRY, "Upgrade": "websocket", "Connection": "Upgrade, close", "Sec-WebSocket-Version": "13"},
)

_VERSION: Final = b"13"
_KEY: Final = re.compile(rb"[A-Za-z0-9+/]{22}==")
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PROTOCOL: Final = b"sec-websocket-protocol"
# An engine judges a page by the host that it was asked as, which is not what the page knows.
_NOT_PASSED: Final = frozenset({_PROTOCOL, b"origin", b"accept-encoding"})
_OF_A_BODY: Final = frozenset({b"content-type", b"content-encoding"})
_UPGRADE: Final = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"


def is_offer(request: Request) -> bool:
    """Whether this asks for a WebSocket where there is one; anything else is read as if it offered none."""
    return (
        request.method == b"GET"
        and not request.is_old
        and not request.asked.is_chunked
        and not request.content_length
        and b"websocket" in [item.strip() for item in request.known.get(b"upgrade", b"").lower().split(b",")]
        and request.target.partition(b"?")[0] in SOCKET_PATHS
    )


def refusal(request: Request) -> Answer | None:
    """Why the offer cannot be taken, if it cannot. Raises MalformedRequestError where its key is none."""
    if not request.is_socket or request.known.get(b"sec-websocket-version") != _VERSION:
        return NO_OFFER
    if not _KEY.fullmatch(request.known.get(b"sec-websocket-key", b"")):
        raise MalformedRequestError("Sec-WebSocket-Key must be 16 bytes in base64")
    return None


def offered(request: Request) -> list[str]:
    """The subprotocols, the most wanted first."""
    return split_list(request.text(_PROTOCOL))


def split_list(value: str) -> list[str]:
    """The items of a header's list."""
    return [item.strip() for item in value.split(",") if item.strip()]


def for_engine(request: Request, target: Target, plan: LaunchPlan) -> bytes:
    """The head that asks the engine: with the client's own key and extensions, and none of its secrets."""
    fields = [f for f in to_engine(request.fields, request.known) if f[0] not in _NOT_PASSED]
    protocols = ", ".join(_passed(offered(request)))
    if protocols:
        fields.append((_PROTOCOL, b"Sec-WebSocket-Protocol", protocols.encode("utf-8", "surrogateescape")))
    remap = plan.engine_paths.get(target.route.capability)
    path = engine_target(target.route, remap, None, _query(target.query, plan.model))
    line = f"GET {path} HTTP/1.1\r\nHost: {plan.endpoint.host}:{plan.endpoint.port}\r\n"
    return b"".join((line.encode("latin-1"), _UPGRADE, as_lines(fields), b"\r\n"))


def for_client(request: Request, told: Told, recipe: str) -> bytes:
    """The lines that tell the client what the engine chose.

    Raises UpstreamError where the engine's is no answer to what it was asked.
    """
    said = known(told.fields)
    asked = request.known[b"sec-websocket-key"]
    accept = b64encode(hashlib.sha1(asked + _GUID, usedforsecurity=False).digest())
    if said.get(b"sec-websocket-accept") != accept:
        raise UpstreamError(f"{recipe} does not speak WebSocket: its handshake is wrong")
    protocols = offered(request)
    chosen = said.get(_PROTOCOL, b"").decode("utf-8", "surrogateescape")
    lines = _UPGRADE + as_lines(told.fields, without=_OF_A_BODY)
    if chosen and chosen not in _passed(protocols):
        raise UpstreamError(f"{recipe} chose a subprotocol that was not offered to it")
    if not chosen and OURS in protocols:
        lines += f"Sec-WebSocket-Protocol: {OURS}\r\n".encode()
    return lines


def _passed(protocols: Sequence[str]) -> list[str]:
    return [protocol for protocol in protocols if protocol != OURS and not carries_key(protocol)]


def _query(query: str, model: str) -> str:
    """Without the key, and with the model's canonical id where one is named."""
    parts = []
    for part in query.split("&"):
        name = unquote_plus(part.partition("=")[0])
        if name == "model":
            parts.append(f"model={quote(model, safe='')}")
        elif name != API_KEY:
            parts.append(part)
    return "&".join(parts)
