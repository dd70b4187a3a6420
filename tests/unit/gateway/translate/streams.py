"""Events of an engine's stream, and what an Anthropic client is told of them."""

from __future__ import annotations

import json
from typing import Any


def events(data: bytes) -> list[tuple[str, Any]]:
    told = []
    for event in data.decode().split("\n\n")[:-1]:
        name, payload = event.split("\n")
        told.append((name.removeprefix("event: "), json.loads(payload.removeprefix("data: "))))
    return told


def delta(finish: str | None = None, **members: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-7", "choices": [{"delta": members, "finish_reason": finish}]}


def call_part(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments, **more.pop("function", {})}, **more}
