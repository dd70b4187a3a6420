"""One connection to an engine, and the answer that is read from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from lemonpod.gateway.data.wire import Outbox, Wire

_MAX_HEAD: Final = 256 << 10
_LAST_WORDS: Final = 5.0
"""How long an engine may take to read them."""
_MAX_PAST: Final = 4 << 20
"""An engine that goes on for longer shall notice that it is in vain."""

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


class Owner(Protocol):
    """Who opened a connection, and knows when it can be used again."""

    outbox: Outbox

    def call(self, caller: Caller, *, fresh: bool) -> None:
        """Give the caller another connection, a new one if it is to be `fresh`."""

    def answered(self, connection: EngineConnection) -> None:
        """The head of its answer is there."""

    def give_back(self, connection: EngineConnection) -> None:
        """It could be used again."""

    def has_just_begun(self, connection: EngineConnection) -> bool:
        """Whether its request is so new that it may never have come to the engine."""

    def lost(self, connection: EngineConnection) -> None:
        """It is of no use any more. Idempotent."""


class EngineConnection(Wire):
    """One connection, and the answer that is read from it."""

    __slots__ = (
        "_caller",
        "_complete",
        "_drained",
        "_feed",
        "_fields",
        "_has_head",
        "_head",
        "_head_size",
        "_heard",
        "_is_paused",
        "_is_reused",
        "_keeps",
        "_owner",
        "_parser",
        "_pieces",
        "_read_past",
        "_reply_fields",
        "_spoiled",
        "_takes_upgrade",
        "since",
    )

    def __init__(self, owner: Owner) -> None:
        super().__init__(owner.outbox)
        self.since = 0.0
        """When it was given back."""
        self._owner = owner
        self._parser = HttpResponseParser(self)
        self._feed: Callable[[bytes], None] = self._parser.feed_data
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
        self._takes_upgrade = False
        self._read_past = 0
        """Bytes that may still come when nobody listens any more."""
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

    @property
    def is_full(self) -> bool:
        """The engine reads more slowly than it is written to."""
        return self._drained is not None

    async def drained(self) -> None:
        """Wait until the engine has read most of what was written."""
        if self._drained is not None:
            await self._drained

    def keep_for_this_one(self) -> None:
        """Never use it again: its answer may come before it has read the whole request."""
        self._spoiled = True

    def take_upgrade(self) -> None:
        """An answer with status 101 is welcome: what comes behind its head is told as its body."""
        self._spoiled = self._takes_upgrade = True

    def leave(self) -> None:
        """End it after what was sent; what still comes is read past, else the last words could be lost."""
        self._caller = None
        self._read_past = _MAX_PAST
        self._owner.lost(self)
        self.resume()
        self.end_sending()
        asyncio.get_running_loop().call_later(_LAST_WORDS, self.transport.abort)

    def abort(self) -> None:
        """End it at once: that is how an engine learns that nobody listens."""
        self._caller = None
        self._owner.lost(self)
        super().abort()

    def cut(self) -> None:
        """As if the engine had ended it."""
        self._break(STOPPED if self._has_head else NO_ANSWER)

    # --- the socket ---------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        del self._parser, self._feed
        was_gone = self._is_reused and not self._heard and self._owner.has_just_begun(self)
        self._owner.lost(self)
        self.resume_writing()
        caller, self._caller = self._caller, None
        if caller is None:
            return
        if was_gone:
            self._owner.call(caller, fresh=True)
        elif self._has_head and exc is None and not _is_framed(self._reply_fields):
            caller.on_eof()
        else:
            caller.on_break(STOPPED if self._has_head else NO_ANSWER)

    def data_received(self, data: bytes) -> None:
        caller = self._caller
        if caller is None:
            self._read_past -= len(data)
            if self._read_past < 0:
                self.abort()
            return
        try:
            self._feed(data)
        except HttpParserUpgrade as offer:
            if not self._takes_upgrade:
                self._break("it answered with status 101")
                return
            self._complete = False  # only its head is
            self._feed = self.on_body
            if rest := data[offer.args[0] :]:
                self.on_body(rest)
        except HttpParserError:
            self._hand_on(data)
            self._break(STOPPED if self._has_head else NOT_HTTP)
            return
        try:
            if self._complete or self._head is not None or len(self._pieces) != 1:
                self._hand_on(data)
            else:  # as nearly always in a stream
                caller.on_piece(self._pieces.pop())
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
            self._owner.answered(self)
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
            self._owner.give_back(self)
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
