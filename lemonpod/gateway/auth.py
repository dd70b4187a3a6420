"""API keys: who may use the models, and who may administer the server."""

from __future__ import annotations

import hmac

from aiohttp import web
from aiohttp.typedefs import Handler

from lemonpod.errors import UnauthorizedError
from lemonpod.gateway import keys
from lemonpod.gateway.settings import GatewaySettings

_API = ("api", "v0", "v1", "mcp", "metrics")
_ADMIN = "internal"


@web.middleware
async def check_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request through when its key opens its path."""
    settings = request.app[keys.SETTINGS]
    top = request.path.lstrip("/").partition("/")[0]
    if top == _ADMIN:
        admin_key = settings.admin_api_key or settings.api_key
        if admin_key and not bearer_is(request, admin_key):
            raise UnauthorizedError("Invalid or missing admin API key")
    elif top in _API and not may_use(request, settings):
        raise UnauthorizedError("Invalid or missing API key")
    return await handler(request)


def may_use(request: web.Request, settings: GatewaySettings) -> bool:
    """Whether the request may see what only users of the API may see."""
    if not settings.api_key:
        return True
    accepted = [settings.api_key, settings.admin_api_key or settings.api_key]
    return any([bearer_is(request, key) for key in accepted])  # no short cut: it would take less time


def bearer_is(request: web.Request, key: str) -> bool:
    """Compare without telling by the time it takes how much of the key was right."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    given = token.strip().encode("utf-8", "surrogateescape")
    wanted = key.encode("utf-8", "surrogateescape")
    return hmac.compare_digest(given, wanted) and scheme.lower() == "bearer"
