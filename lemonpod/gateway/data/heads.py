"""The heads of our answers, as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from lemonpod.gateway.data.clock import Clock
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.errors import Answer

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
BODILESS: Final = frozenset({204, 304})

_STATUS_LINES: Final[Mapping[int, bytes]] = {
    status: f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode() for status in HTTPStatus
}


def status_line(status: int) -> bytes:
    """With the reason that everybody gives; an engine's own says no more."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def closing_lines(request: Request | None, clock: Clock, *, stream: bool = False) -> bytes:
    """The lines that end every head. An event stream says that the connection stays open, if it does."""
    if request is None or not request.keep_alive:
        connection = b"Connection: close\r\n"
    elif stream or request.is_old:
        connection = b"Connection: keep-alive\r\n"
    else:
        connection = b""
    if request is not None and request.origin is not None:
        connection += b"Access-Control-Allow-Origin: %b\r\n" % request.origin
    return clock.ours + connection + b"\r\n"


def switching(request: Request, clock: Clock, lines: bytes) -> bytes:
    """The head that turns a connection into a WebSocket, with the `lines` of its handshake."""
    origin = b"" if request.origin is None else b"Access-Control-Allow-Origin: %b\r\n" % request.origin
    return b"".join((status_line(101), lines, clock.ours, origin, b"\r\n"))


def own_answer(answer: Answer, request: Request | None, clock: Clock, lines: bytes = b"") -> bytes:
    """An answer of our own, whole, with more header lines.

    `request` is None where there was none that could be read.
    """
    body = json.dumps(answer.envelope).encode()
    own = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    head = b"%bContent-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\n%b%b%b" % (
        status_line(answer.status),
        len(body),
        own.encode(),
        lines,
        closing_lines(request, clock),
    )
    return head if request is not None and request.method == b"HEAD" else head + body
