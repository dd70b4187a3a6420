"""Which headers cross the gateway, in each direction."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

Field: TypeAlias = tuple[bytes, bytes, bytes]
"""A header's name in small letters, as it was written, and the value."""

MAX_FIELD: Final = 64 << 10
"""One header's value or the request line, from either side: long queries and tokens fit."""

AS_IT_COMES: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""Of every answer that tells its news bit by bit: nginx and its kin would hand it over in one lump."""

# RFC 9110 section 7.6.1, with the older names that are still seen.
_HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# What a client proves itself with is for us alone: an engine is somebody else's program.
_SECRETS: Final = frozenset({b"authorization", b"api-key", b"cookie", b"x-api-key"})
# The body is framed anew, and by then inflated. Asked to say "100 Continue", some engines never would.
_REQUEST_FRAMING: Final = frozenset({b"content-encoding", b"content-length", b"expect", b"host"})
# Ours to say: where the answer came from, who may read it, and who must log in.
_RESPONSE_OURS: Final = frozenset({b"date", b"server", b"set-cookie", b"set-cookie2", b"www-authenticate"})
_NOT_TO_ENGINE: Final = _HOP_BY_HOP | _SECRETS | _REQUEST_FRAMING
_NOT_TO_CLIENT: Final = _HOP_BY_HOP | _RESPONSE_OURS
_CORS_PREFIX: Final = b"access-control-"
_UNSENDABLE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def to_engine(fields: Iterable[Field], known: Mapping[bytes, bytes]) -> list[Field]:
    """A client's headers as an engine may see them."""
    named = _named(known)
    kept = [field for field in fields if field[0] not in _NOT_TO_ENGINE and field[0] not in named]
    if b"accept-encoding" not in known or b"accept-encoding" in named:
        # Engines might compress for a client that says nothing, and that one never asked for it.
        kept.append((b"accept-encoding", b"Accept-Encoding", b"identity"))
    return kept


def to_client(fields: Iterable[tuple[bytes, bytes]]) -> list[Field]:
    """An engine's headers as a client may see them; the length of the body is kept."""
    read = [(name.lower(), name, value) for name, value in fields]
    named = _named(known(field for field in read if field[0] == b"connection"))
    return [
        field
        for field in read
        if field[0] not in _NOT_TO_CLIENT
        and field[0] not in named
        and not field[0].startswith(_CORS_PREFIX)
        and not _UNSENDABLE.search(field[2])  # a parser that is kind to engines lets it pass
    ]


def known(fields: Iterable[Field]) -> dict[bytes, bytes]:
    """The values by their small names; several values are one list."""
    values: dict[bytes, bytes] = {}
    for key, _, value in fields:
        values[key] = value if key not in values else b"%b, %b" % (values[key], value)
    return values


def as_lines(fields: Iterable[Field], *, without: Collection[bytes] = ()) -> bytes:
    """The fields for a head, but for those whose small names are in `without`."""
    return b"".join([name + b": " + value + b"\r\n" for key, name, value in fields if key not in without])


def is_encoded(values: Mapping[bytes, bytes]) -> bool:
    """Whether the body is compressed, and so cannot be looked into or added to."""
    return values.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity")


def media_type(content_type: bytes) -> bytes:
    """The type of the body without its parameters, as `text/event-stream`."""
    return content_type.partition(b";")[0].strip().lower()


def is_json(content_type: bytes) -> bool:
    """Whether a body of this type calls itself JSON."""
    kind = media_type(content_type)
    return kind == b"application/json" or kind.endswith(b"+json")


def _named(values: Mapping[bytes, bytes]) -> Collection[bytes]:
    """What `Connection` lists besides, which is of that connection alone."""
    listed = values.get(b"connection")
    return () if not listed else [token.strip().lower() for token in listed.split(b",")]
