"""Errors in the words of the API that was asked: Anthropic's, Ollama's, or our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from lemonpod.gateway.errors import Answer, message_of
from lemonpod.gateway.translate import anthropic_answer, ollama_answer
from lemonpod.gateway.translate.question import Document

_ANTHROPIC: Final = ("/v1/messages", "/api/v1/messages")
"""With all that is below them."""
_OLLAMA: Final = frozenset(
    {
        *("blobs", "chat", "copy", "create", "delete", "embed", "embeddings"),
        *("generate", "ps", "pull", "push", "show", "tags", "version"),
    }
)
"""The first words of its paths behind `/api/`; whatever else is there is ours."""


def worded(path: str, answer: Answer) -> Answer:
    """An error as clients of the path's API expect it; any other answer as it is."""
    mistake = _mistake_at(path) if answer.status >= 400 and "error" in answer.envelope else None
    if mistake is None:
        return answer
    return replace(answer, envelope=dict(mistake(answer.status, message_of(answer.envelope))))


def _mistake_at(path: str) -> Callable[[int, str], Document] | None:
    if any(path == ours or path.startswith(f"{ours}/") for ours in _ANTHROPIC):
        return anthropic_answer.mistake
    top, _, rest = path.removeprefix("/").partition("/")
    return ollama_answer.mistake if top == "api" and rest.partition("/")[0] in _OLLAMA else None
