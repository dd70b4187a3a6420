"""An engine's own HTTP errors, brought into the one shape that clients know."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any, Final

from aiohttp import web

from lemonpod.gateway.errors import NO_RETRY
from lemonpod.gateway.exchange import Exchange
from lemonpod.gateway.headers import to_client
from lemonpod.gateway.scrub import scrub

_MAX_READ: Final = 64 << 10
_MAX_SHOWN: Final = 2000
# Keys and logins are ours alone: a client that logs out because an engine wants one is misled.
_NOT_THE_CLIENTS_FAULT: Final = frozenset({401, 403, 407})
_OF_THE_BODY: Final = ("Content-Length", "Content-Type", "Content-Encoding", "ETag", "Last-Modified")
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS


async def answer_engine_error(request: web.Request, answer: Exchange) -> web.Response:
    """The engine's status, with its message in an envelope."""
    body, _ = await answer.read_all(_MAX_READ)
    text = _inflated(body, answer.headers.get("Content-Encoding", "")).decode("utf-8", "replace").strip()
    text = scrub(text, answer.plan)
    headers = to_client(answer.headers)
    for name in _OF_THE_BODY:
        headers.popall(name, None)
    status = 502 if answer.status in _NOT_THE_CLIENTS_FAULT else answer.status
    if answer.status in _NOT_THE_CLIENTS_FAULT | {501}:
        headers.update(NO_RETRY)  # clients try again after any 5xx, and here in vain
    return web.json_response(
        engine_envelope(answer.status, text, recipe=answer.recipe), status=status, headers=headers
    )


def engine_envelope(status: int, text: str, *, recipe: str) -> dict[str, Any]:
    """An error object of OpenAI's shape is kept; of anything else the text is."""
    said = _parsed(text)
    error = said.get("error") if isinstance(said, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        details = error.get("details")
        own = error | {"details": (details if isinstance(details, dict) else {}) | {"backend": recipe}}
    else:
        shown = text[:_MAX_SHOWN]
        message = error[:_MAX_SHOWN] if isinstance(error, str) else shown
        own = {
            "message": message or f"{recipe} answered with status {status}",
            "details": {"backend": recipe, "response": shown if said is None or shown != text else said},
        }
    own.setdefault("type", "invalid_request_error" if status < 500 else "backend_error")
    own["status_code"] = status
    if _is_context_overflow(own):
        own["code"] = "context_length_exceeded"
    return {"error": own}


def _is_context_overflow(error: dict[str, Any]) -> bool:
    """As llama.cpp's server tells it: by a type of its own, older ones only by the message."""
    message = str(error["message"]).lower()
    return error.get("type") == "exceed_context_size_error" or "exceeds the available context size" in message


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _inflated(body: bytes, coding: str) -> bytes:
    if coding.strip().lower() not in {"gzip", "deflate"}:
        return body
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, _MAX_READ)
    except zlib.error:
        return b""
