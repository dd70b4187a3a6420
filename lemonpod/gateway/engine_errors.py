"""An engine's own HTTP errors, brought into the one shape that clients know."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any, Final

from lemonpod.gateway.errors import NO_RETRY, Answer, Envelope, typed_envelope
from lemonpod.gateway.headers import Field, known
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.scrub import scrub

MAX_READ: Final = 64 << 10
"""Of an error's body; the rest is not waited for."""
_MAX_SHOWN: Final = 2000
# Keys and logins are ours alone: a client that logs out because an engine wants one is misled.
_NOT_THE_CLIENTS_FAULT: Final = frozenset({401, 403, 407})
_OF_THE_BODY: Final = frozenset(
    {b"content-length", b"content-type", b"content-encoding", b"etag", b"last-modified"}
)
_BAD_GATEWAY: Final = 502
# llama.cpp's words, before it had a type for it, and vLLM's, which are OpenAI's.
_OVERFLOW_WORDS: Final = ("exceeds the available context size", "maximum context length is")
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS


def engine_answer(
    status: int, fields: list[Field], body: bytes, plan: LaunchPlan
) -> tuple[Answer, list[Field]]:
    """An engine's error as our own answer, with those of its headers that pass."""
    coding = known(fields).get(b"content-encoding", b"")
    text = scrub(_inflated(body, coding).decode("utf-8", "replace").strip(), plan)
    told = engine_envelope(status, text, recipe=plan.recipe)
    # Clients try again after any 5xx, and here in vain.
    answer = Answer(status, told, NO_RETRY if status == 501 else {})
    if status in _NOT_THE_CLIENTS_FAULT:
        answer = Answer(_BAD_GATEWAY, _refusal(status, told, plan.recipe), NO_RETRY)
    return answer, [
        field for field in fields if field[0] not in _OF_THE_BODY and field[0].decode() not in answer.headers
    ]


def engine_envelope(status: int, text: str, *, recipe: str) -> Envelope:
    """An error object of OpenAI's shape is kept; of anything else the text is."""
    said = _parsed(text)
    error = said.get("error") if isinstance(said, dict) else None
    shown = text[:_MAX_SHOWN]
    details = {"backend": recipe, "response": shown if said is None or shown != text else said}
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        more = error.get("details")
        own = error | {"details": (more if isinstance(more, dict) else {}) | details}
    else:
        message = error[:_MAX_SHOWN] if isinstance(error, str) else shown
        own = {"message": message or f"{recipe} answered with status {status}", "details": details}
    own.setdefault("type", "invalid_request_error" if status < 500 else "backend_error")
    own["status_code"] = status
    if _is_context_overflow(own):
        own["code"] = "context_length_exceeded"
    return {"error": own}


def _refusal(status: int, told: Envelope, recipe: str) -> Envelope:
    """Of the server by the engine: nothing in it may look like a refusal of the client."""
    said = told["error"]
    details = {name: value for name, value in said["details"].items() if name != "response"}
    return typed_envelope(
        f"{recipe} refused the server's request with status {status}: {said['message']}. Clients' keys do "
        "not reach an engine; if it wants one, see the 'args' and 'env' of its manifest",
        "backend_error",
        status_code=_BAD_GATEWAY,
        details={**details, "status_code": status},
    )


def _is_context_overflow(error: dict[str, Any]) -> bool:
    """As llama.cpp's server tells it, by a type of its own, and others only by the message."""
    message = str(error["message"]).lower()
    return error.get("type") == "exceed_context_size_error" or any(
        words in message for words in _OVERFLOW_WORDS
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _inflated(body: bytes, coding: bytes) -> bytes:
    if coding.strip().lower() not in {b"gzip", b"deflate"}:
        return body
    try:
        return zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, MAX_READ)
    except zlib.error:
        return b""
