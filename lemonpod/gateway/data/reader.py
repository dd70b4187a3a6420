"""Reads a client's requests. Only the parser (llhttp) decides where one ends and the next begins."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.data.handshake import is_offer
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.errors import Answer, answer_to, typed_envelope
from lemonpod.gateway.headers import MAX_FIELD, Field

log = logging.getLogger(__name__)

_MAX_FIELDS: Final = 128
_MAX_UNSPENT: Final = 4 * MAX_FIELD
"""Bytes that nothing comes of: a head, trailers or what stands behind a chunk's size, without an end."""


class RequestReader:
    """Fed as the bytes arrive, split anywhere. Of what cannot be read it says so once, and reads no more."""

    __slots__ = (
        "_feed",
        "_fields",
        "_parser",
        "_skips_head",
        "_target",
        "_upgrade",
        "body_of",
        "fault",
        "over",
        "queue",
        "unspent",
    )

    def __init__(self) -> None:
        self.queue: deque[Request] = deque()
        """The requests whose head is complete, for the owner to take."""
        self.body_of: Request | None = None
        """Whose body is still to come."""
        self.fault: Answer | None = None
        """What to answer, behind all that is complete, before the connection ends."""
        self.over = False
        """Nothing that is fed from now on is a request."""
        self._parser = HttpRequestParser(self)
        self._feed: Callable[[bytes], None] = self._parser.feed_data
        self._target = b""
        self._fields: list[Field] = []
        self._upgrade = self._skips_head = False
        self.unspent = 0
        """Bytes that nothing has come of yet, as those of a head without its end."""

    def feed(self, data: bytes) -> None:
        if self.over:
            return
        self.unspent += len(data)
        try:
            self._feed(data)
        except HttpParserUpgrade as offer:
            self._upgraded(data[offer.args[0] :])
        except HttpParserError as error:
            if not self.over:
                self._refuse(error.__context__ or error)
        if self.unspent > _MAX_UNSPENT:
            self._refuse(_TooLongError())

    def is_all_body(self, data: bytes) -> bool:
        """Whether none of these bytes can begin another request."""
        request = self.body_of
        return request is not None and (
            request.is_socket or request.content_length - request.size >= len(data)
        )

    def close(self) -> None:
        """Let the parser go, which holds on to this object."""
        self.over = True
        self.queue.clear()
        del self._parser, self._feed

    # --- called by the parser -----------------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        if not self._skips_head:
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._skips_head:
            self._fields.append((name.lower(), name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        size, self.unspent = self.unspent, 0
        if self._skips_head:
            self._skips_head = False
            return
        parser, target, fields = self._parser, self._target, self._fields
        self._target, self._fields = b"", []
        if size > MAX_FIELD or len(fields) > _MAX_FIELDS:
            _check_sizes(target, fields)
        request = Request(
            parser.get_method(),
            target,
            parser.get_http_version(),
            fields,
            keep_alive=parser.should_keep_alive(),
        )
        self._upgrade = parser.should_upgrade()
        if self._upgrade and is_offer(request):
            request.is_socket = True
            request.keep_alive = False  # taken or not, nothing behind it is ever read as a request
        self.body_of = request
        self.queue.append(request)

    def on_body(self, data: bytes) -> None:
        self.unspent = 0
        if (request := self.body_of) is not None:
            request.pieces.append(data)
            request.size += len(data)
            request.has_news = True

    def on_message_complete(self) -> None:
        if self._upgrade:
            return  # only the head is over: an offer that is not taken changes nothing
        self.unspent = 0
        if self._fields:
            self._fields = []  # trailers
        request, self.body_of = self.body_of, None
        if request is not None:
            request.ended = request.has_news = True
            self.over = not request.keep_alive

    # ------------------------------------------------------------------------------------------------------

    def _upgraded(self, rest: bytes) -> None:
        """The parser has stopped behind the head of an offer."""
        if self.body_of is None or not self.body_of.is_socket:
            self._decline(rest)
            return
        self._feed = self.on_body
        if rest:
            self.on_body(rest)

    def _decline(self, rest: bytes) -> None:
        """Go on behind an offer to upgrade, where this parser would stop: another one takes the body."""
        self._upgrade = False
        if (request := self.body_of) is not None:
            self._skips_head = True
            self._parser = HttpRequestParser(self)
            self._feed = self._parser.feed_data
            self._feed(request.framing())
        if rest:
            self.feed(rest)

    def _refuse(self, error: BaseException) -> None:
        self.over = True
        match error:
            case _TooLongError():
                self.fault = Answer(431, typed_envelope("The request's head is too long", "invalid_request"))
            case MalformedRequestError():
                self.fault = answer_to(error)
            case _:
                self.fault = answer_to(MalformedRequestError("The request is not HTTP as it should be"))
        log.warning("a request was refused: it is not HTTP as it should be")
        if self.queue and self.queue[-1] is self.body_of:
            self.queue.pop()


class _TooLongError(Exception):
    """A head, or one of its lines, is beyond every use."""


def _check_sizes(target: bytes, fields: list[Field]) -> None:
    if len(fields) > _MAX_FIELDS or len(target) > MAX_FIELD:
        raise _TooLongError
    for _, name, value in fields:
        if len(name) + len(value) > MAX_FIELD:
            raise _TooLongError
