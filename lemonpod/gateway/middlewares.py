"""What every request passes that aiohttp answers: errors, origins, keys, and the first look at the disk."""

from __future__ import annotations

import logging
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from lemonpod.errors import LemonpodError, UnauthorizedError
from lemonpod.gateway import keys
from lemonpod.gateway.auth import PROOFS, bearer_is, check_use, proof_of, to_bytes
from lemonpod.gateway.cors import ORIGIN_NOT_ALLOWED, is_allowed
from lemonpod.gateway.errors import NO_RETRY, Answer, answer_to, row_of, typed_envelope
from lemonpod.gateway.routes import SOCKET_PATHS
from lemonpod.gateway.wording import worded

log = logging.getLogger(__name__)

_API: Final = ("api", "v0", "v1", "mcp", "metrics")
_ADMIN: Final = "internal"
_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Api-Key",
    "Access-Control-Max-Age": "600",
}


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever goes wrong before an answer has begun into the envelope for it."""
    try:
        return await handler(request)
    except LemonpodError as error:
        if _has_begun(request):
            raise
        if row_of(type(error)).status >= 500:
            log.warning("%s %s: %s", request.method, request.path, error)
        return _told(request, answer_to(error, model=request.get(keys.REQUESTED_MODEL)))
    except web.HTTPMethodNotAllowed as error:
        return _told(request, _method_not_allowed(error))
    except web.HTTPNotFound:
        unknown = typed_envelope("The requested endpoint does not exist", "not_found", path=request.path)
        return _told(request, Answer(404, unknown, NO_RETRY))
    except web.HTTPException as error:
        text = error.text or error.reason
        return _told(request, Answer(error.status, typed_envelope(text, "invalid_request")))
    except Exception:
        if _has_begun(request):
            raise
        log.exception("%s %s failed", request.method, request.path)
        return _told(request, Answer(500, typed_envelope("Internal server error", "internal_error")))


@web.middleware
async def check_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse pages that may not call, and answer the browser's question whether one may."""
    origin = request.headers.get("Origin")
    if origin is not None:
        allowed = request.app[keys.SETTINGS].allowed_origins
        if not is_allowed(origin, host=request.headers.get("Host", ""), allowed=allowed):
            return _told(request, ORIGIN_NOT_ALLOWED)
        request[keys.ORIGIN] = origin
    if request.method == "OPTIONS":
        asked = request.headers.get("Access-Control-Request-Headers")
        return web.Response(
            status=204,
            headers=_PREFLIGHT | ({"Access-Control-Allow-Headers": asked} if asked else {}),
        )
    return await handler(request)


@web.middleware
async def check_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request through when its key opens its path."""
    settings = request.app[keys.SETTINGS]
    authorization = authorization_of(request)
    top = request.path.lstrip("/").partition("/")[0]
    if top == _ADMIN:
        admin_key = settings.admin_api_key or settings.api_key
        if admin_key and not bearer_is(authorization, admin_key):
            raise UnauthorizedError("Invalid or missing admin API key")
    elif top in _API and to_bytes(request.path) not in SOCKET_PATHS:
        # A WebSocket has more ways to carry a key, and looks at them itself.
        check_use(authorization, settings)
    return await handler(request)


def authorization_of(request: web.Request) -> bytes:
    """What the client proves itself with, as it came."""
    given = {name: request.headers.get(name.decode()) for name in PROOFS}
    return proof_of({name: to_bytes(value) for name, value in given.items() if value is not None})


@web.middleware
async def know_what_is_there(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let requests that come before the first look at the disk wait for it; `/live` promises nothing."""
    if request.path != "/live":
        await request.app[keys.INVENTORY].ready()
    return await handler(request)


async def say_origin(request: web.Request, response: web.StreamResponse) -> None:
    """Mark every answer, streamed ones too, before its headers go out."""
    response.headers.add("Vary", "Origin")
    if origin := request.get(keys.ORIGIN):
        response.headers["Access-Control-Allow-Origin"] = origin


async def say_server(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "lemonpod"  # the library's version is nobody's business


def _has_begun(request: web.Request) -> bool:
    """Whether bytes of an answer are out: then the connection is broken."""
    return request.writer.output_size > 0


def _method_not_allowed(error: web.HTTPMethodNotAllowed) -> Answer:
    wanted = " or ".join(sorted(error.allowed_methods - {"HEAD"}))
    return Answer(
        405,
        {"error": f"Method Not Allowed. Use {wanted} for this endpoint"},
        {"Allow": ", ".join(sorted(error.allowed_methods))},
    )


def _told(request: web.Request, answer: Answer) -> web.Response:
    told = worded(request.path, answer)
    return web.json_response(told.envelope, status=told.status, headers=told.headers)
