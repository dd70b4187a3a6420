"""Engines' answers in Ollama's words: JSON, or a line of JSON for each event."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from lemonpod.errors import UpstreamError
from lemonpod.gateway.stats import UNKNOWN, Usage
from lemonpod.gateway.translate.answer import Piece, ToolPart, calls_of, piece_of, usage_in, written
from lemonpod.gateway.translate.question import Document, Took, Whole

_NANOSECONDS: Final = 1_000_000_000
_FOREVER: Final = 9e9
"""Seconds; Ollama's clients count nanoseconds with 64 bits, and engines may tell of any number."""


Form: TypeAlias = Callable[[Piece, list[dict[str, Any]]], dict[str, Any]]
"""Where the words and the tool calls of an answer stand."""


def in_chat(piece: Piece, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """As an answer to `/api/chat` has them."""
    message: dict[str, Any] = {"role": "assistant", "content": piece.text}
    if piece.thinking:
        message["thinking"] = piece.thinking
    if calls:
        message["tool_calls"] = calls
    return {"message": message}


def in_generate(piece: Piece, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """As an answer to `/api/generate` has them."""
    members: dict[str, Any] = {"response": piece.text}
    if piece.thinking:
        members["thinking"] = piece.thinking
    if calls:
        members["tool_calls"] = calls
    return members


def mistake(status: int, message: str) -> Document:
    """Ollama's body for an error."""
    return {"error": message}


def nothing_said(model: str, form: Form, reason: str) -> Document:
    """The answer to a request that only loads or unloads."""
    return {**_head(model), **form(Piece(), []), "done": True, "done_reason": reason}


def whole(model: str, form: Form) -> Whole:
    """For an answer that is not streamed."""

    def tell(document: Document, took: Took) -> Document:
        piece = piece_of(document)
        calls = _calls(piece.tools, piece.finish)
        return {
            **_head(model),
            **form(piece, calls),
            **_logprobs(piece),
            **_done(piece.finish, usage_in(document), took),
        }

    return tell


class OllamaStream:
    """Words as they come; tool calls, of which engines send fragments, whole and last."""

    content_type = b"application/x-ndjson"
    ping = b""

    def __init__(self, model: str, form: Form) -> None:
        self._model = model
        self._form = form
        self._tools: list[ToolPart] = []
        self._finish: str | None = None
        self._usage = UNKNOWN

    def event(self, document: Document) -> bytes:
        piece = piece_of(document)
        self._tools += piece.tools
        self._finish = piece.finish or self._finish
        used = usage_in(document)
        if used != UNKNOWN:
            self._usage = used
        if not (piece.text or piece.thinking or piece.logprobs):
            return b""
        return self._line({**self._form(piece, []), **_logprobs(piece), "done": False})

    def end(self, took: Took) -> bytes:
        calls = _calls(self._tools, self._finish)
        told = self._line({**self._form(Piece(), calls), "done": False}) if calls else b""
        last = {**self._form(Piece(), []), **_done(self._finish, self._usage, took)}
        return told + self._line(last)

    def failure(self, mistake: Document) -> bytes:
        return _line(mistake)

    def _line(self, members: Document) -> bytes:
        return _line({**_head(self._model), **members})


def embeddings(model: str) -> Whole:
    """For `/api/embed`."""

    def tell(document: Document, took: Took) -> Document:
        return {
            "model": model,
            "embeddings": _vectors(document),
            "total_duration": _nanoseconds(took.total),
            "load_duration": _nanoseconds(took.loaded),
            "prompt_eval_count": usage_in(document).input_tokens or 0,
        }

    return tell


def embedding(document: Document, took: Took) -> Document:
    """For `/api/embeddings`."""
    return {"embedding": next(iter(_vectors(document)), [])}


def as_text(members: Document) -> str:
    """An object as OpenAI has it in tool calls."""
    return json.dumps(members, ensure_ascii=False)


def _vectors(document: Document) -> list[list[float]]:
    data = document.get("data")
    try:
        vectors = [item["embedding"] for item in sorted(data or [], key=lambda item: item.get("index", 0))]
    except (AttributeError, KeyError, TypeError):
        vectors = [None]
    if not all(isinstance(vector, list) for vector in vectors):
        raise UpstreamError("the engine's answer holds no embeddings")
    return vectors


def _calls(parts: Iterable[ToolPart], finish: str | None) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "function": {"name": call.name, "arguments": arguments}}
        for call, arguments in calls_of(parts, finish)
    ]


def _done(finish: str | None, usage: Usage, took: Took) -> dict[str, Any]:
    prompt = usage.first_token if usage.first_token is not None else max((took.first or 0) - took.loaded, 0)
    made = usage.output_tokens or 0
    rest = made / usage.speed if usage.speed else max(took.total - took.loaded - prompt, 0)
    return {
        "done": True,
        "done_reason": "length" if finish == "length" else "stop",
        "total_duration": _nanoseconds(took.total),
        "load_duration": _nanoseconds(took.loaded),
        "prompt_eval_count": usage.input_tokens or 0,
        "prompt_eval_duration": _nanoseconds(prompt),
        "eval_count": made,
        "eval_duration": _nanoseconds(rest),
    }


def _logprobs(piece: Piece) -> dict[str, Any]:
    return {"logprobs": list(piece.logprobs)} if piece.logprobs else {}


def _head(model: str) -> dict[str, Any]:
    return {"model": model, "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z")}


def _line(members: Document) -> bytes:
    return written(members).encode() + b"\n"


def _nanoseconds(seconds: float) -> int:
    return int(min(seconds, _FOREVER) * _NANOSECONDS)
