"""Engines' answers in Anthropic's words: a message, or the events that build one block after another."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final

from lemonpod.errors import UpstreamError
from lemonpod.gateway.stats import UNKNOWN, Usage
from lemonpod.gateway.translate.answer import Piece, calls_of, piece_of, usage_in
from lemonpod.gateway.translate.anthropic_blocks import Blocks, event, new_id
from lemonpod.gateway.translate.question import Document, Took, Whole

_STOP_REASONS: Final = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_ERROR_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def mistake(status: int, message: str) -> Document:
    """Anthropic's body for an error."""
    kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def whole(model: str, stops: Collection[str]) -> Whole:
    """For an answer that is not streamed."""

    def tell(document: Document, took: Took) -> Document:
        piece = piece_of(document)
        return {
            **_message(model, document),
            "content": _blocks(piece),
            **_ending(piece.finish, piece.stopped_by, stops, has_calls=bool(piece.tools)),
            "usage": _usage(usage_in(document)),
        }

    return tell


def count_of_tokens(document: Document, took: Took) -> Document:
    """From a tokenizer's answer."""
    tokens = document.get("tokens")
    if not isinstance(tokens, list):
        raise UpstreamError("the engine's answer holds no tokens")
    return {"input_tokens": len(tokens)}


def count_of_prompt(document: Document, took: Took) -> Document:
    """From an answer to the prompt."""
    count = usage_in(document).input_tokens
    if count is None:
        raise UpstreamError("the engine does not tell how many tokens the prompt has")
    return {"input_tokens": count}


class AnthropicStream:
    """A message that is built from events."""

    content_type = b"text/event-stream"

    def __init__(self, model: str, stops: Collection[str]) -> None:
        self.ping = b""
        self._model = model
        self._stops = stops
        self._begun = False
        self._blocks = Blocks()
        self._finish: str | None = None
        self._stopped_by: str | None = None
        self._usage = UNKNOWN

    def event(self, document: Document) -> bytes:
        piece = piece_of(document)
        self._finish = piece.finish or self._finish
        self._stopped_by = piece.stopped_by or self._stopped_by
        used = usage_in(document)
        if used != UNKNOWN:
            self._usage = used
        told = self._start(document)
        if piece.thinking:
            told += self._blocks.thinking(piece.thinking)
        if piece.text:
            told += self._blocks.text(piece.text)
        for part in piece.tools:
            told += self._blocks.tool(part)
        return told

    def end(self, took: Took) -> bytes:
        ending = _ending(self._finish, self._stopped_by, self._stops, has_calls=self._blocks.have_calls)
        return b"".join(
            (
                self._start({}),
                self._blocks.end(),
                event("message_delta", delta=ending, usage=_usage(self._usage)),
                event("message_stop"),
            )
        )

    def failure(self, mistake: Document) -> bytes:
        return b"event: error\ndata: %b\n\n" % json.dumps(mistake).encode()

    def _start(self, document: Document) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        self.ping = event("ping")
        message = {
            **_message(self._model, document),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(UNKNOWN),
        }
        return event("message_start", message=message)


def _message(model: str, document: Document) -> dict[str, Any]:
    own = document.get("id")
    id_ = f"msg_{own.removeprefix('chatcmpl-')}" if isinstance(own, str) and own else new_id("msg")
    return {"id": id_, "type": "message", "role": "assistant", "model": model}


def _blocks(piece: Piece) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if piece.thinking:
        blocks.append({"type": "thinking", "thinking": piece.thinking, "signature": ""})
    if piece.text:
        blocks.append({"type": "text", "text": piece.text})
    for call, arguments in calls_of(piece.tools, piece.finish):
        block = {"type": "tool_use", "id": call.id or new_id("toolu"), "name": call.name}
        blocks.append({**block, "input": arguments})
    return blocks


def _ending(
    finish: str | None, stopped_by: str | None, stops: Collection[str], *, has_calls: bool
) -> dict[str, Any]:
    if finish in (None, "stop") and stopped_by in stops:
        return {"stop_reason": "stop_sequence", "stop_sequence": stopped_by}
    # Some engines say "stop" behind a tool call too.
    default = "tool_use" if has_calls and finish in (None, "stop") else "end_turn"
    return {"stop_reason": _STOP_REASONS.get(finish or "", default), "stop_sequence": None}


def _usage(usage: Usage) -> dict[str, int]:
    cached = usage.cached_tokens or 0
    return {
        "input_tokens": max((usage.input_tokens or 0) - cached, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.output_tokens or 0,
    }
