"""API keys: who may use the models, and who may administer the server."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs

from lemonpod.errors import UnauthorizedError
from lemonpod.gateway.settings import GatewaySettings

API_KEY: Final = "api_key"
"""Of a WebSocket's query."""

PROOFS: Final = (b"authorization", b"x-api-key")
"""The headers that carry a key; Anthropic's clients send only the second."""

_OPENAI: Final = "openai-insecure-api-key."
_LEMONADE: Final = "bearer."


def proof_of(fields: Mapping[bytes, bytes]) -> bytes:
    """What a client proves itself with, as if it stood in Authorization. The fields may hold others too."""
    authorization, key = map(fields.get, PROOFS)
    if authorization is None and key:
        return b"Bearer " + key
    return authorization or b""


def check_use(authorization: bytes, settings: GatewaySettings) -> None:
    """Raise UnauthorizedError unless this header opens the API."""
    if not may_use(authorization, settings):
        raise UnauthorizedError("Invalid or missing API key")


def may_use(authorization: bytes, settings: GatewaySettings) -> bool:
    """Whether who sent this header may see what only users of the API may see."""
    if not settings.api_key:
        return True
    of_users = bearer_is(authorization, settings.api_key)
    if not settings.admin_api_key:
        return of_users
    # No short cut: it would take less time.
    of_admins = bearer_is(authorization, settings.admin_api_key)
    return of_users or of_admins


def carries_key(protocol: str) -> bool:
    """Whether this subprotocol is none, but a key."""
    return protocol.startswith((_OPENAI, _LEMONADE))


def keys_of_socket(authorization: bytes, query: str, protocols: Iterable[str]) -> list[bytes]:
    """Each key that a WebSocket's handshake carries, as an Authorization header: a page can set none."""
    keys = [to_bytes(key) for key in parse_qs(query).get(API_KEY, [])]
    for protocol in protocols:
        if protocol.startswith(_OPENAI):
            keys.append(to_bytes(protocol.removeprefix(_OPENAI)))
        elif protocol.startswith(_LEMONADE):
            keys.append(_decoded(protocol.removeprefix(_LEMONADE)))
    return [*([authorization] if authorization else []), *(b"Bearer " + key for key in keys)]


def bearer_is(authorization: bytes, key: str) -> bool:
    """Compare without telling by the time it takes how much of the key was right."""
    scheme, _, token = authorization.partition(b" ")
    return hmac.compare_digest(token.strip(), _encoded(key)) and scheme.lower() == b"bearer"


def _decoded(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


def to_bytes(text: str) -> bytes:
    """Text of a request or the environment, as it came."""
    return text.encode("utf-8", "surrogateescape")


_encoded: Final = lru_cache(maxsize=2)(to_bytes)
