"""API keys: who may use the models, and who may administer the server."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from functools import lru_cache

from lemonpod.errors import UnauthorizedError
from lemonpod.gateway.settings import GatewaySettings


def proof_of(fields: Mapping[bytes, bytes]) -> bytes:
    """What a client proves itself with, as if it stood in Authorization; Anthropic's say it elsewhere."""
    authorization = fields.get(b"authorization")
    if authorization is None and (key := fields.get(b"x-api-key")):
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


def bearer_is(authorization: bytes, key: str) -> bool:
    """Compare without telling by the time it takes how much of the key was right."""
    scheme, _, token = authorization.partition(b" ")
    return hmac.compare_digest(token.strip(), _encoded(key)) and scheme.lower() == b"bearer"


@lru_cache(maxsize=2)
def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")
