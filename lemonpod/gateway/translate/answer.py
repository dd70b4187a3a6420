"""An engine's answer, whole or an event of a stream, as values: what it says, calls, and used.

Engines differ in what they leave out, so whatever is missing or odd is taken for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from lemonpod.errors import UpstreamError
from lemonpod.gateway.stats import Usage, usage_of
from lemonpod.gateway.translate.question import Document


class ToolPart(NamedTuple):
    """A tool call, or a fragment of one."""

    number: int
    id: str
    name: str
    arguments: str
    """A JSON object, or a part of its text."""


class Piece(NamedTuple):
    """What one answer, or one event, adds."""

    text: str = ""
    thinking: str = ""
    tools: tuple[ToolPart, ...] = ()
    finish: str | None = None
    """Why the engine stopped, in OpenAI's words."""
    stopped_by: str | None = None
    """The stop sequence that it met, of engines that tell."""
    logprobs: tuple[Document, ...] = ()


def piece_of(document: Document) -> Piece:
    """What an answer of chats or completions says, be it a whole one or an event."""
    choice = _object(next(iter(_list(document.get("choices"))), None))
    said = _object(choice.get("delta")) or _object(choice.get("message"))
    finish, stopped_by = choice.get("finish_reason"), choice.get("stop_reason")
    return Piece(
        text=_text(said.get("content")) or _text(choice.get("text")),
        thinking=_text(said.get("reasoning_content")) or _text(said.get("reasoning")),
        tools=tuple(_tool_parts(_list(said.get("tool_calls")))),
        finish=finish if isinstance(finish, str) else None,
        stopped_by=stopped_by if isinstance(stopped_by, str) else None,
        logprobs=tuple(_list(_object(choice.get("logprobs")).get("content"))),
    )


def written(members: Document) -> str:
    """An answer as JSON for the client; raises UpstreamError where the engine said what JSON cannot."""
    try:
        return json.dumps(members, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise UpstreamError(f"the engine's answer cannot be told in JSON: {error}") from error


def usage_in(document: Document) -> Usage:
    """What the answer used, as far as it tells."""
    return usage_of(document.get("usage"), document.get("timings"))


def _joined(parts: Iterable[ToolPart]) -> list[ToolPart]:
    """The calls that these fragments make, in the order in which they began."""
    calls: list[ToolPart] = []
    latest: dict[int, int] = {}
    for part in parts:
        at = latest.get(part.number)
        if at is None or is_another(part, calls[at]):
            latest[part.number] = len(calls)
            calls.append(part)
        else:
            old = calls[at]
            calls[at] = ToolPart(
                part.number, old.id or part.id, old.name or part.name, old.arguments + part.arguments
            )
    return calls


def is_another(part: ToolPart, call: ToolPart) -> bool:
    """Whether it begins another call of the same number: engines that tell calls whole may not count them.

    An id alone says nothing, since some give each fragment one of its own.
    """
    return bool(part.name and part.id and call.id and part.id != call.id)


def calls_of(parts: Iterable[ToolPart], finish: str | None) -> list[tuple[ToolPart, dict[str, Any]]]:
    """The whole calls with their arguments; raises UpstreamError where these are no object.

    One that was cut off with the answer, as `finish` tells, is none.
    """
    calls = []
    for call in _joined(parts):
        try:
            arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            arguments = None
        if isinstance(arguments, dict):
            calls.append((call, arguments))
        elif finish != "length":
            raise UpstreamError(
                f"the model called the tool '{call.name}' with arguments that are no JSON object"
            )
    return calls


def _tool_parts(calls: Iterable[object]) -> Iterable[ToolPart]:
    for position, item in enumerate(calls):
        call = _object(item)
        function = _object(call.get("function"))
        index, arguments = call.get("index"), function.get("arguments")
        yield ToolPart(
            index if isinstance(index, int) else position,
            _text(call.get("id")),
            _text(function.get("name")),
            written(arguments) if isinstance(arguments, dict) else _text(arguments),
        )


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
