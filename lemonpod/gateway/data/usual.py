"""What follows from the fields of a head, worked out once for those that come again and again.

Clients and engines say the same in every head, the length and the date aside.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.headers import (
    Field,
    as_lines,
    is_encoded,
    is_json,
    known,
    media_type,
    to_client,
    to_engine,
)

_REMEMBERED: Final = 256
_MAX_SIZE: Final = 4096
"""Longer heads are not worth their memory."""
_LENGTH: Final = b"content-length"
_DATE: Final = b"date"
_NO_TYPE: Final = frozenset({b"", b"application/octet-stream"})
_CONTENT_TYPE: Final = frozenset({b"content-type"})
# Of two, an engine might believe the other one.
_ONCE: Final = (b"host", b"content-type", b"content-encoding", b"content-range", b"expect", b"user-agent")


class Asked:
    """A request's fields, but for its length."""

    __slots__ = ("is_chunked", "known", "lines", "lines_of_json")

    def __init__(self, fields: tuple[Field, ...]) -> None:
        """Raises MalformedRequestError for what two programs might read in two ways."""
        self.known = known(fields)
        """By the small name; several values are one list."""
        if len(self.known) != len(fields):
            keys = [key for key, _, _ in fields]
            for key in _ONCE:
                if keys.count(key) > 1:
                    raise MalformedRequestError(f"The header {key.decode()} comes twice")
        coding = self.known.get(b"transfer-encoding")
        if coding is not None and coding.strip().lower() != b"chunked":
            raise MalformedRequestError("The request's Transfer-Encoding must be chunked")
        self.is_chunked = coding is not None
        passed = to_engine(fields, self.known)
        self.lines = as_lines(passed)
        """For an engine."""
        self.lines_of_json = self.lines
        """The same for a JSON body, which is JSON, whatever curl's default says."""
        if not is_json(self.known.get(b"content-type", b"")):
            self.lines_of_json = (
                as_lines(passed, without=_CONTENT_TYPE) + b"Content-Type: application/json\r\n"
            )


class Body(Enum):
    """What an engine's body is, as its head says."""

    EVENTS = auto()
    JSON = auto()
    OTHER = auto()
    """Or it is compressed, and so cannot be looked into."""


class Told:
    """The fields of an engine's answer, but for its length."""

    __slots__ = ("body", "fields", "is_untyped", "lines")

    def __init__(self, fields: tuple[tuple[bytes, bytes], ...]) -> None:
        self.fields = to_client(fields)
        """As a client may see them."""
        self.lines = as_lines(self.fields)
        values = known(self.fields)
        kind = values.get(b"content-type", b"")
        self.is_untyped = media_type(kind) in _NO_TYPE
        if is_encoded(values):
            self.body = Body.OTHER
        elif media_type(kind) == b"text/event-stream":
            self.body = Body.EVENTS
        else:
            self.body = Body.JSON if is_json(kind) else Body.OTHER


def asked(fields: Iterable[Field]) -> tuple[Asked, bytes | None]:
    """What follows from a request's fields, and its length if that is said."""
    length = None
    usual = []
    for field in fields:
        if field[0] == _LENGTH:
            length = field[2]
        else:
            usual.append(field)
    key = tuple(usual)
    try:
        return _asked(key), length
    except _NotWorthItError:
        return Asked(key), length


def told(fields: Iterable[tuple[bytes, bytes]]) -> tuple[Told, bytes | None]:
    """What follows from the fields of an answer, and its length if that is said."""
    length = None
    usual = []
    for field in fields:
        name = field[0].lower()
        if name == _LENGTH:
            length = field[1]
        elif name != _DATE:
            usual.append(field)
    key = tuple(usual)
    try:
        return _told(key), length
    except _NotWorthItError:
        return Told(key), length


class _NotWorthItError(Exception):
    """What is raised is not remembered."""


@lru_cache(_REMEMBERED)
def _asked(fields: tuple[Field, ...]) -> Asked:
    _check_size(fields)
    return Asked(fields)


@lru_cache(_REMEMBERED)
def _told(fields: tuple[tuple[bytes, bytes], ...]) -> Told:
    _check_size(fields)
    return Told(fields)


def _check_size(fields: Iterable[tuple[bytes, ...]]) -> None:
    if sum(len(part) for field in fields for part in field) > _MAX_SIZE:
        raise _NotWorthItError
