"""Which web pages may call (CORS): those of this machine, and those the operator names."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from lemonpod.gateway import keys

_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}


def is_allowed(origin: str, *, host: str, allowed: Collection[str]) -> bool:
    """Whether a page of `origin` may use a server that it reached as `host`.

    A page of the server's own address is fine where that address is a number: a name could be
    rebound to this machine by whoever owns it.
    """
    if "*" in allowed or origin.lower() in {entry.rstrip("/").lower() for entry in allowed}:
        return True
    try:
        parts = urlsplit(origin)
        name = parts.hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or parts.netloc == host


@web.middleware
async def check_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse pages that may not call, and answer the browser's question whether one may."""
    origin = request.headers.get("Origin")
    if origin is not None:
        allowed = request.app[keys.SETTINGS].allowed_origins
        if not is_allowed(origin, host=request.headers.get("Host", ""), allowed=allowed):
            return web.json_response({"error": "Origin not allowed"}, status=403)
        request[keys.ORIGIN] = origin
    if request.method == "OPTIONS":
        asked = request.headers.get("Access-Control-Request-Headers")
        return web.Response(
            status=204,
            headers=_PREFLIGHT | ({"Access-Control-Allow-Headers": asked} if asked else {}),
        )
    return await handler(request)


async def say_origin(request: web.Request, response: web.StreamResponse) -> None:
    """Mark every answer, streamed ones too, before its headers go out."""
    response.headers.add("Vary", "Origin")
    if origin := request.get(keys.ORIGIN):
        response.headers["Access-Control-Allow-Origin"] = origin
