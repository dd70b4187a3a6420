"""Brings an engine's answer to the client: events as they come, everything else byte for byte."""

from __future__ import annotations

import logging
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from lemonpod.errors import LemonpodError, MalformedRequestError
from lemonpod.gateway import keys
from lemonpod.gateway.engine_errors import answer_engine_error
from lemonpod.gateway.errors import envelope, typed_envelope
from lemonpod.gateway.exchange import Exchange
from lemonpod.gateway.headers import is_encoded, is_json, media_type, to_client
from lemonpod.gateway.json_body import JsonBody, peek
from lemonpod.gateway.sse import DONE, PING, EventStream, error_event

log = logging.getLogger(__name__)

MAX_LOOKED_INTO: Final = 1 << 20
"""A longer JSON answer passes unread: looking into it would hold up everybody else's tokens."""
_BODILESS: Final = frozenset({204, 304})
_NO_OUTPUT: Final = (
    "Generation failed: the backend produced no output (it likely crashed or ran out of GPU memory). "
    "Check the server logs."
)
# nginx and its kin would collect the tokens and hand them over in one lump.
_EVENT_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """What this client expects of the answer."""

    model: str | None
    """The name it asked for, which the answer is to carry too."""
    wants_done: bool
    """Its event streams end with `data: [DONE]`."""
    wants_output: bool = False
    """An answer without a body is no answer: a sound, a shape."""


async def relay(request: web.Request, answer: Exchange, manners: Manners) -> web.StreamResponse:
    """Answer the request with what the engine says."""
    if answer.status >= 400:
        return await answer_engine_error(request, answer)
    if request.method == "HEAD" or answer.status in _BODILESS or is_encoded(answer.headers):
        return await _relay_bytes(request, answer)
    if media_type(answer.headers) == "text/event-stream":
        with request.app[keys.STATS].streaming(answer.model):
            return await _relay_events(request, answer, manners)
    begun = b""
    if manners.wants_output and not (begun := await answer.read() or b""):
        return _no_output(request, answer)
    if is_json(answer.headers):
        return await _relay_json(request, answer, manners, begun)
    return await _relay_bytes(request, answer, begun)


async def _relay_events(request: web.Request, answer: Exchange, manners: Manners) -> web.StreamResponse:
    patience = request.app[keys.SETTINGS].heartbeat or None
    response = web.StreamResponse(status=answer.status, headers=to_client(answer.headers))
    response.headers.update(_EVENT_HEADERS)
    if request.keep_alive:
        response.headers["Connection"] = "keep-alive"
    response.headers.pop("Content-Length", None)  # there may be more to send than the engine meant to
    events = EventStream()
    with suppress(ConnectionResetError):  # the client has gone
        await response.prepare(request)
        try:
            while (chunk := await answer.read(patience=patience)) != b"":
                if chunk is not None:
                    events.feed(chunk)
                    await response.write(chunk)
                elif events.between_events:
                    await response.write(PING)
        except LemonpodError as error:
            if not events.done:
                log.warning("%s %s: %s", request.method, request.path, error)
                await response.write(events.closing(error_event(envelope(error))))
                _close(request)
            return response
        if events.failed:
            log.warning(
                "%s %s: %s told of an error in its stream", request.method, request.path, answer.recipe
            )
        elif manners.wants_done and not events.done:
            await response.write(events.closing(DONE))
    return response


async def _relay_json(
    request: web.Request, answer: Exchange, manners: Manners, begun: bytes
) -> web.StreamResponse:
    rest, complete = await answer.read_all(MAX_LOOKED_INTO)
    data = begun + rest
    if not complete:
        return await _relay_bytes(request, answer, data)
    headers = to_client(answer.headers)
    headers.pop("Content-Length", None)
    try:
        body = peek(data, ("model", "usage", "timings"))
    except MalformedRequestError:
        return web.Response(body=data, status=answer.status, headers=headers)
    request.app[keys.STATS].count(body)
    return web.Response(body=_renamed(body, manners.model), status=answer.status, headers=headers)


async def _relay_bytes(request: web.Request, answer: Exchange, begun: bytes = b"") -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=to_client(answer.headers))
    with suppress(ConnectionResetError):  # the client has gone
        await response.prepare(request)
        if request.method == "HEAD" or answer.status in _BODILESS:
            return response
        try:
            chunk = begun or await answer.read()
            while chunk:
                await response.write(chunk)
                chunk = await answer.read()
        except LemonpodError as error:
            log.warning("%s %s: %s", request.method, request.path, error)
            _abort(request)
    return response


def _no_output(request: web.Request, answer: Exchange) -> web.Response:
    log.warning("%s %s: %s answered with nothing", request.method, request.path, answer.recipe)
    return web.json_response(typed_envelope(_NO_OUTPUT, "backend_error"), status=502)


def _renamed(body: JsonBody, model: str | None) -> bytes:
    if model is None or not isinstance(body.get("model"), str):
        return body.encode()
    return body.with_text("model", model).encode()


def _close(request: web.Request) -> None:
    """End the connection after what was written: without its last chunk the answer cannot look complete."""
    if request.transport is not None:
        request.transport.close()


def _abort(request: web.Request) -> None:
    """Break the connection, so that the client's read fails even if only the end of it ends the body."""
    if request.transport is not None:
        connection: socket.socket = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
