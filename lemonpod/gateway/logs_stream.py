"""`/logs/stream`: what the server and its engines say, over a WebSocket, in Lemonade's messages.

A viewer reads from the journal at its own pace: one that is too slow misses lines, and is told how many.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Final

from aiohttp import WSCloseCode, WSMsgType, web

from lemonpod.engine.journal import MAX_ENTRIES, Journal
from lemonpod.engine.tasks import cancel
from lemonpod.errors import MalformedRequestError, UnauthorizedError
from lemonpod.gateway import keys
from lemonpod.gateway.auth import keys_of_socket, may_use
from lemonpod.gateway.data.handshake import NO_OFFER, OURS, split_list
from lemonpod.gateway.middlewares import authorization_of
from lemonpod.gateway.settings import GatewaySettings

_MAX_MESSAGE: Final = 64 << 10
_BATCH: Final = 100
"""Lines that are read at once; then others have their turn."""
_LEAVE: Final = 1.0
"""How long a viewer may take to say goodbye too."""
_PROOF: Final = 10.0
"""How long one without a key may take to send it."""
_SNAPSHOT: Final = '{"type": "logs.snapshot", "entries": [%s]}'
_BEARER: Final = b"Bearer "


async def stream_logs(request: web.Request) -> web.StreamResponse:
    """The journal's lines from where the viewer says, and then those that come."""
    settings = request.app[keys.SETTINGS]
    protocols = split_list(", ".join(request.headers.getall("Sec-WebSocket-Protocol", [])))
    given = keys_of_socket(authorization_of(request), request.query_string, protocols)
    may_view = any(may_use(key, settings) for key in given or [b""])
    # Without any key it may still come in a message.
    socket = web.WebSocketResponse(
        protocols=[OURS], max_msg_size=_MAX_MESSAGE, timeout=_LEAVE, compress=False
    )
    is_offer = socket.can_prepare(request).ok
    if not may_view and (given or not is_offer):
        raise UnauthorizedError("Invalid or missing API key")
    if not is_offer:
        return web.json_response(NO_OFFER.envelope, status=NO_OFFER.status, headers=NO_OFFER.headers)
    await socket.prepare(request)
    viewers = request.app[keys.VIEWERS]
    viewers.add(socket)
    try:
        await _Viewer(socket, request.app[keys.JOURNAL], settings, may_view=may_view).listen()
    finally:
        viewers.discard(socket)
    return socket


async def dismiss_viewers(app: web.Application) -> None:
    """Say that the server ends to those who would wait for more of its lines."""
    farewells = [
        socket.close(code=WSCloseCode.GOING_AWAY, message=b"the server is shutting down")
        for socket in app[keys.VIEWERS]
    ]
    await asyncio.gather(*farewells, return_exceptions=True)


class _Viewer:
    _patience: asyncio.Timeout

    def __init__(
        self, socket: web.WebSocketResponse, journal: Journal, settings: GatewaySettings, *, may_view: bool
    ) -> None:
        self._socket = socket
        self._journal = journal
        self._settings = settings
        self._may_view = may_view
        self._showing: asyncio.Task[None] | None = None

    async def listen(self) -> None:
        """Do what the viewer asks for until it leaves."""
        try:
            async with asyncio.timeout(None if self._may_view else _PROOF) as self._patience:
                async for message in self._socket:
                    if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                        with suppress(ConnectionError):
                            await self._obey(message.data)
        except TimeoutError:
            await self._socket.close(code=WSCloseCode.POLICY_VIOLATION, message=b"no key has come")
        finally:
            await self._stop()

    async def _obey(self, data: str | bytes) -> None:
        try:
            asked = _parsed(data)
            if asked.get("type") == "auth":
                self._authenticate(asked)
                await self._send({"type": "auth.ok"})
            elif not self._may_view:
                raise UnauthorizedError("Unauthorized. Please authenticate first by sending an auth message.")
            elif asked.get("type") == "logs.subscribe":
                after = _after(asked)
                await self._stop()
                self._showing = asyncio.create_task(self._show(after))
            else:
                raise MalformedRequestError("Expected logs.subscribe message")
        except (MalformedRequestError, UnauthorizedError) as error:
            details = {"message": error.message, "type": "invalid_request_error"}
            await self._send({"type": "error", "error": details})

    def _authenticate(self, asked: dict[str, Any]) -> None:
        given = asked.get("token") or asked.get("api_key") or ""
        try:
            key = str(given).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # half a character, which is in no key
            key = b""
        if not may_use(_BEARER + key.removeprefix(_BEARER), self._settings):
            raise UnauthorizedError("Invalid API key")
        self._may_view = True
        self._patience.reschedule(None)

    async def _show(self, after: int) -> None:
        """Send the lines behind `after`, first those that are there in one message."""
        position = after if after <= self._journal.last else 0
        history: list[str] = []
        while len(history) < MAX_ENTRIES and (entries := self._journal.read(position, _BATCH)):
            history += [json.dumps(entry.as_json()) for entry in entries]
            position = entries[-1].seq
            await asyncio.sleep(0)
        with suppress(ConnectionError):  # the viewer has gone
            await self._socket.send_str(_SNAPSHOT % ", ".join(history))
            while True:
                entries = self._journal.read(position, _BATCH)
                for entry in entries:
                    await self._send({"type": "logs.entry", "entry": entry.as_json()})
                if entries:
                    position = entries[-1].seq
                    await asyncio.sleep(0)
                else:
                    await self._wait()

    async def _wait(self) -> None:
        """For a line; no middlebox shall give up meanwhile."""
        try:
            async with asyncio.timeout(self._settings.heartbeat or None):
                await self._journal.news()
        except TimeoutError:
            await self._socket.ping()

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send_str(json.dumps(message))

    async def _stop(self) -> None:
        if self._showing is not None:
            await cancel(self._showing)
            self._showing = None


def _parsed(data: str | bytes) -> dict[str, Any]:
    try:
        asked = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedRequestError(f"Invalid JSON: {error}") from error
    if not isinstance(asked, dict):
        raise MalformedRequestError("Invalid JSON: a message must be an object")
    return asked


def _after(asked: dict[str, Any]) -> int:
    after = asked.get("after_seq")
    if after is None:
        return 0
    if not isinstance(after, int) or isinstance(after, bool) or after < 0:
        raise MalformedRequestError("'after_seq' must be the number of a line")
    return after
