"""The connections to one engine.

A connection is used again where that does no harm. Many engines give every connection a thread, of which
they have few: one that is kept open for nothing keeps others waiting. So none is kept while a request waits
for its answer for long, and none for more than a moment.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Final, Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from lemonpod.gateway.data.clock import Clock
from lemonpod.gateway.data.wire import Outbox, Wire

_MAX_IDLE: Final = 64
_IDLE: Final = 1.0
"""Engines close idle connections after 5 s and more."""
_LONG: Final = 0.02
"""No engine that has a thread to spare takes so long for every answer of a burst."""

_RACE: Final = 1.0
"""A connection that had ended when it was used again says so at once."""
_MAX_HEAD: Final = 256 << 10

NO_CONNECTION: Final = "it takes no connections"
NO_FILE: Final = "the server may open no more files, and so no connection to it"
NO_ANSWER: Final = "it closed the connection without an answer"
STOPPED: Final = "its answer stopped in the middle"
TOO_LONG: Final = "it sent header lines without an end"
NOT_HTTP: Final = "its answer is not HTTP"

ReplyFields = list[tuple[bytes, bytes]]


class Caller(Protocol):
    """Who asks an engine, and is told of the answer."""

    def connected(self, connection: EngineConnection) -> None:
        """Send the request on it. May be called a second time, after the first connection was lost."""

    def on_head(self, status: int, fields: ReplyFields) -> None: ...

    def on_piece(self, data: bytes) -> None:
        """All that came of the body at once."""

    def on_nothing(self) -> None:
        """Something came, and no more of the body."""

    def on_end(self) -> None:
        """The answer is whole."""

    def on_eof(self) -> None:
        """The connection has ended, and it alone could end this answer."""

    def on_break(self, reason: str) -> None:
        """There will be no (more) answer."""

    def on_bug(self, error: Exception) -> None:
        """What the caller was told made it raise this; the connection is gone."""


class Upstream:
    """One engine's, from its first request to the end of its life."""

    def __init__(
        self, host: str, port: int, cut: asyncio.Event, clock: Clock, outbox: Outbox,
        connect_timeout: float, on_end: Callable[[asyncio.Event], None],
    ) -> None:  # fmt: skip
        self.clock = clock
        self.outbox = outbox
        self._host, self._port = host, port
        self._connect_timeout = connect_timeout
        self._cut = cut
        self._on_end = on_end
        self._idle: list[EngineConnection] = []
        self._busy: dict[EngineConnection, None] = {}
        self._waiting: dict[EngineConnection, float] = {}
        """Since when, the oldest first."""
        self._opening: dict[Caller, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._check: asyncio.TimerHandle | None = None
        self._end = self._loop.create_task(self._until_cut())
        clock.join(self)

    def call(self, caller: Caller, *, fresh: bool = False) -> None:
        """Give the caller a connection: in this step if one is there."""
        if self._idle and not fresh:
            connection = self._idle.pop()
            connection.begin(caller)
            self._begun(connection)
        else:
            self._opening[caller] = self._loop.create_task(self._open(caller))

    def leave(self, caller: Caller) -> None:
        """The caller wants no connection any more."""
        if task := self._opening.pop(caller, None):
            task.cancel()

    def close(self) -> None:
        """Break all connections."""
        self._end.cancel()
        self._over()

    def tick(self, now: float) -> None:
        for connection in [c for c in self._idle if now - c.since >= _IDLE]:
            connection.abort()

    # --- for its connections ------------------------------------------------------------------------------

    def answered(self, connection: EngineConnection) -> None:
        """The head of its answer is there."""
        self._waiting.pop(connection, None)

    def give_back(self, connection: EngineConnection) -> None:
        """It could be used again."""
        del self._busy[connection]
        if len(self._idle) >= _MAX_IDLE or self._has_a_long_wait():
            connection.abort()
            return
        connection.since = self.clock.now
        self._idle.append(connection)
        if self._waiting and self._check is None:
            self._check = self._loop.call_later(_LONG, self._check_waits)

    def has_just_begun(self, connection: EngineConnection) -> bool:
        """Whether its request is so new that it may never have come to the engine."""
        return self._loop.time() - self._waiting.get(connection, -_RACE) < _RACE

    def lost(self, connection: EngineConnection) -> None:
        """Idempotent."""
        self._busy.pop(connection, None)
        self._waiting.pop(connection, None)
        if connection in self._idle:
            self._idle.remove(connection)

    # ------------------------------------------------------------------------------------------------------

    def _begun(self, connection: EngineConnection) -> None:
        self._busy[connection] = None
        self._waiting[connection] = self._loop.time()

    def _has_a_long_wait(self) -> bool:
        return bool(self._waiting) and self._loop.time() - next(iter(self._waiting.values())) > _LONG

    def _check_waits(self) -> None:
        self._check = None
        if self._has_a_long_wait():
            for connection in list(self._idle):
                connection.abort()
        elif self._waiting and self._idle:
            self._check = self._loop.call_later(_LONG, self._check_waits)

    async def _open(self, caller: Caller) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await self._loop.create_connection(
                    lambda: EngineConnection(self), self._host, self._port
                )
        except (OSError, TimeoutError) as error:
            self._opening.pop(caller, None)
            caller.on_break(NO_FILE if error.errno in (errno.EMFILE, errno.ENFILE) else NO_CONNECTION)
            return
        if self._opening.pop(caller, None) is None:
            connection.abort()
            return
        connection.begin(caller)
        self._begun(connection)
        caller.connected(connection)

    async def _until_cut(self) -> None:
        await self._cut.wait()
        self._over()

    def _over(self) -> None:
        self.clock.leave(self)
        if self._check is not None:
            self._check.cancel()
        for connection in [*self._idle, *self._busy]:
            connection.cut()
        for caller in list(self._opening):
            self.leave(caller)
            caller.on_break(NO_CONNECTION)
        self._on_end(self._cut)


class EngineConnection(Wire):
    """One connection, and the answer that is read from it."""

    __slots__ = (
        "_caller",
        "_complete",
        "_drained",
        "_fields",
        "_has_head",
        "_head",
        "_head_size",
        "_heard",
        "_is_paused",
        "_is_reused",
        "_keeps",
        "_parser",
        "_pieces",
        "_reply_fields",
        "_spoiled",
        "_upstream",
        "since",
    )

    def __init__(self, upstream: Upstream) -> None:
        super().__init__(upstream.outbox)
        self.since = 0.0
        """When it was given back."""
        self._upstream = upstream
        self._parser = HttpResponseParser(self)
        # Kind to engines: what cannot be sent on is left out later.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._caller: Caller | None = None
        self._fields: ReplyFields = []
        self._pieces: list[bytes] = []
        self._head: tuple[int, ReplyFields] | None = None
        """For the caller to be told of."""
        self._reply_fields: ReplyFields = []
        self._head_size = 0
        """Of a head, or trailers, that are not whole yet."""
        self._heard = self._has_head = self._complete = False
        self._keeps = self._spoiled = self._is_reused = self._is_paused = False
        self._drained: asyncio.Future[None] | None = None

    def begin(self, caller: Caller) -> None:
        """Read an answer for this caller."""
        self._is_reused = self._complete
        self._caller = caller
        self._heard = self._has_head = self._complete = False
        self._head_size = 0
        if self._is_reused:
            caller.connected(self)

    def pause(self) -> None:
        """Read no more for now."""
        if not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()

    async def drained(self) -> None:
        """Wait until the engine has read most of what was written."""
        if self._drained is not None:
            await self._drained

    def keep_for_this_one(self) -> None:
        """Never use it again: its answer may come before it has read the whole request."""
        self._spoiled = True

    def abort(self) -> None:
        """End it at once: that is how an engine learns that nobody listens."""
        self._caller = None
        self._upstream.lost(self)
        super().abort()

    def cut(self) -> None:
        """As if the engine had ended it."""
        self._break(STOPPED if self._has_head else NO_ANSWER)

    # --- the socket ---------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        del self._parser
        was_gone = self._is_reused and not self._heard and self._upstream.has_just_begun(self)
        self._upstream.lost(self)
        self.resume_writing()
        caller, self._caller = self._caller, None
        if caller is None:
            return
        if was_gone:
            self._upstream.call(caller, fresh=True)
        elif self._has_head and exc is None and not _is_framed(self._reply_fields):
            caller.on_eof()
        else:
            caller.on_break(STOPPED if self._has_head else NO_ANSWER)

    def data_received(self, data: bytes) -> None:
        caller = self._caller
        if caller is None:
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._break("it answered with status 101")
            return
        except HttpParserError:
            self._hand_on(data)
            self._break(STOPPED if self._has_head else NOT_HTTP)
            return
        try:
            self._hand_on(data)
        except Exception as error:
            self.abort()
            caller.on_bug(error)

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    # --- called by the parser -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._heard = True
        if self._complete:
            self._spoiled = True  # an answer to nothing

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        fields, self._fields = self._fields, []
        if self._complete or (100 <= status < 200 and status != 101):
            return
        self._has_head = True
        self._head = status, fields

    def on_body(self, data: bytes) -> None:
        if not self._complete:
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self._has_head and not self._complete:
            self._keeps = self._parser.should_keep_alive()
            self._complete = True
        if self._fields:
            self._fields = []  # trailers

    # ------------------------------------------------------------------------------------------------------

    def _hand_on(self, segment: bytes) -> None:
        """What came in it."""
        if self._head is not None and self._caller is not None:
            (status, fields), self._head = self._head, None
            self._reply_fields = fields
            self._upstream.answered(self)
            self._caller.on_head(status, fields)
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            if self._caller is not None:
                self._caller.on_piece(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        elif not self._has_head or self._fields:
            self._head_size += len(segment)
            if self._head_size > _MAX_HEAD:
                self._break(TOO_LONG)
        elif self._caller is not None and not self._complete:
            self._caller.on_nothing()
        caller = self._caller
        if caller is None or not self._complete:
            return
        self._caller = None
        if self._keeps and not self._spoiled and not self.has_unsent:
            self.resume()  # where its caller reads slowly
            self._upstream.give_back(self)
        else:
            self.abort()
        caller.on_end()

    def _break(self, reason: str) -> None:
        caller = self._caller
        self.abort()
        if caller is not None:
            caller.on_break(reason)


def _is_framed(fields: ReplyFields) -> bool:
    return any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in fields)
