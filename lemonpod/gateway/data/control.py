"""The way to aiohttp, which answers all that is not of the data path.

Each request gets a handler of its own, which sees one whole request on what it takes for a connection that
is closed behind the answer. So aiohttp never reads what another request's bytes might be, and the client's
connection goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import web
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from lemonpod.gateway.data.activity import Ending
from lemonpod.gateway.data.client import ClientConnection
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.errors import Answer, typed_envelope
from lemonpod.gateway.headers import MAX_FIELD, Field, as_lines

log = logging.getLogger(__name__)

_NOT_HANDED_ON: Final = frozenset(
    {b"connection", b"content-length", b"expect", b"keep-alive", b"transfer-encoding", b"upgrade"}
)
_MAX_EARLY: Final = 64 << 10
"""Of what a client sends before it has heard that its WebSocket is open."""
_CLOSE: Final = b"\r\nConnection: close\r\n"
_END_OF_HEAD: Final = b"\r\n\r\n"


class Control:
    """Hands requests to an application's server."""

    def __init__(self, server: web.Server) -> None:
        self._server = server

    def responder(self, client: ClientConnection, request: Request) -> Bridge:
        """Who answers this one."""
        handler = _Handler(
            self._server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # which turns it off
            logger=log,
            max_line_size=2 * MAX_FIELD,
            max_field_size=2 * MAX_FIELD,
            auto_decompress=False,  # what cannot be inflated is the client's fault: intake answers it
            keepalive_timeout=0,
            lingering_time=0,
        )
        return Bridge(client, request, handler)


class _Handler(web.RequestHandler):
    """Answers even what it cannot read in our one shape of errors."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer that had begun has failed") from exc
        if status < 500:
            return web.json_response(
                typed_envelope(f"Bad request: {message}", "invalid_request"), status=status
            )
        log.error("a request failed", exc_info=exc)
        return web.json_response(typed_envelope("Internal server error", "internal_error"), status=status)


class Bridge(asyncio.Transport):
    """What a handler takes for its connection."""

    def __init__(self, client: ClientConnection, request: Request, handler: _Handler) -> None:
        super().__init__()
        self._client = client
        self._request = request
        self._handler = handler
        self._closed = False
        self._head: bytearray | None = bytearray()
        """Of the answer, as long as it is not complete."""
        self._answer = _Framing(bodiless=request.method == b"HEAD")

    # --- for the client's connection ----------------------------------------------------------------------

    def start(self) -> None:
        request, handler = self._request, self._handler
        if request.is_old:
            request.keep_alive = False  # aiohttp would have to promise it
        handler.connection_made(self)
        self._client.ask_for_body()
        connection = b"Connection: close\r\n"
        if request.is_socket:
            connection = b"Connection: close, Upgrade\r\nUpgrade: websocket\r\n"
        length: list[Field] = []
        if request.asked.is_chunked:
            length.append((b"", b"Transfer-Encoding", b"chunked"))
        elif any(key == b"content-length" for key, _, _ in request.fields):
            length.append((b"", b"Content-Length", b"%d" % request.content_length))
        handler.data_received(
            b"%b %b HTTP/%b\r\n%b%b%b\r\n"
            % (
                request.method,
                request.target,
                b"1.0" if request.is_old else b"1.1",
                as_lines(request.fields, without=_NOT_HANDED_ON),
                as_lines(length),
                connection,
            )
        )

    def on_body(self) -> None:
        request = self._request
        if request.is_socket and not self._answer.lasts:
            # As long as the offer is not taken, what stands behind it is nobody's.
            if sum(map(len, request.pieces)) > _MAX_EARLY:
                self._client.pause_reading()
            return
        data = request.take()
        if request.asked.is_chunked:
            data = (b"%x\r\n%b\r\n" % (len(data), data) if data else b"") + (
                b"0\r\n\r\n" if request.ended else b""
            )
        if data and not self._closed:
            self._handler.data_received(data)

    def pause(self) -> None:
        self._handler.pause_writing()

    def resume(self) -> None:
        self._handler.resume_writing()

    def probe(self) -> bool:
        return False

    def tick(self, now: float) -> None:
        pass

    def lost(self, ending: Ending, told: Answer | None = None) -> None:
        if not self._closed:
            self._closed = True
            self._handler.connection_lost(None)

    # --- for the handler ----------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closed:
            return
        self._answer.feed(data)
        if self._head is None:
            self._client.write(bytes(data))
            return
        self._head += data
        if _END_OF_HEAD in self._head:
            sent = bytes(self._head)
            self._head = None
            self._client.write(sent.replace(_CLOSE, b"\r\n", 1) if self._request.keep_alive else sent)
            if self._answer.lasts:
                self._client.resume_reading()
                asyncio.get_running_loop().call_soon(self.on_body)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._closed or self._client.transport.is_closing()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        asyncio.get_running_loop().call_soon(self._handler.connection_lost, None)
        if self._answer.is_complete:
            self._client.done()
        elif self._answer.lasts or (self._request.is_old and self._head is None):
            self._client.done(keep=False)
        else:
            self._client.cut()

    def abort(self) -> None:
        if not self._closed:
            self._client.break_off()

    def pause_reading(self) -> None:
        self._client.pause_reading()

    def resume_reading(self) -> None:
        self._client.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._client.transport.get_extra_info(name, default)


class _Framing:
    """Knows whether an answer is whole: a handler closes its connection also where it failed."""

    def __init__(self, *, bodiless: bool) -> None:
        self.is_complete = False
        self.lasts = False
        """It has become a WebSocket, which the connection's end ends."""
        self._bodiless = bodiless
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        if not (self.is_complete or self.lasts):
            try:
                self._parser.feed_data(data)
            except HttpParserUpgrade:
                self.is_complete, self.lasts = False, True
            except HttpParserError:
                self.is_complete = False

    def on_headers_complete(self) -> None:
        self.is_complete = self._bodiless

    def on_message_complete(self) -> None:
        self.is_complete = True
