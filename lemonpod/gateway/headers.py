"""Which headers cross the gateway, in each direction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

MAX_FIELD: Final = 64 << 10
"""One header's value or the request line, from either side: long queries and tokens fit."""

# RFC 9110 section 7.6.1, with the older names that are still seen.
_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# What a client proves itself with is for us alone: an engine is somebody else's program.
_SECRETS: Final = frozenset({"authorization", "api-key", "cookie", "x-api-key"})
# The body is framed anew, and by then inflated. Asked to say "100 Continue", some engines never would.
_REQUEST_FRAMING: Final = frozenset({"content-encoding", "content-length", "expect", "host"})
# Ours to say: where the answer came from, who may read it, and who must log in.
_RESPONSE_OURS: Final = frozenset({"date", "server", "set-cookie", "set-cookie2", "www-authenticate"})
_CORS_PREFIX: Final = "access-control-"
_UNSENDABLE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def to_engine(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """A client's headers as an engine may see them."""
    kept = _without(headers, _HOP_BY_HOP | _SECRETS | _REQUEST_FRAMING)
    # Without this aiohttp would ask for gzip on its own, and a client that never did would get it.
    kept.setdefault("Accept-Encoding", "identity")
    return kept


def to_client(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """An engine's headers as a client may see them; the length of the body is kept."""
    kept = _without(headers, _HOP_BY_HOP | _RESPONSE_OURS)
    for name in [name for name in kept if name.lower().startswith(_CORS_PREFIX)]:
        kept.popall(name, None)
    return kept


def is_encoded(headers: Mapping[str, str]) -> bool:
    """Whether the body is compressed, and so cannot be looked into or added to."""
    return headers.get("Content-Encoding", "identity").strip().lower() not in {"", "identity"}


def media_type(headers: Mapping[str, str]) -> str:
    """The type of the body without its parameters, as `text/event-stream`."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def is_json(headers: Mapping[str, str]) -> bool:
    """Whether the body calls itself JSON."""
    kind = media_type(headers)
    return kind == "application/json" or kind.endswith("+json")


def _without(headers: CIMultiDictProxy[str], dropped: frozenset[str]) -> CIMultiDict[str]:
    named = frozenset(_listed(headers.getall("Connection", [])))
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        if name.lower() not in dropped and name.lower() not in named and _is_sendable(value):
            kept.add(name, value)
    return kept


def _listed(values: list[str]) -> Iterator[str]:
    for value in values:
        yield from (token.strip().lower() for token in value.split(","))


def _is_sendable(value: str) -> bool:
    # Bytes that are not UTF-8 arrive as surrogates, which the writer cannot send again; nor can it controls.
    return not _UNSENDABLE.search(value)
