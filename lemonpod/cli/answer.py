"""A model's answer as it comes."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any

from lemonpod.cli.client import Client
from lemonpod.errors import UpstreamError


def as_text(typed: str) -> str:
    """Whatever bytes came in, only characters go out."""
    return typed.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def pieces_of(client: Client, body: Mapping[str, Any]) -> Generator[str, None, None]:
    """The answer's text as it comes; raises UpstreamError where it breaks off."""
    with closing(client.lines("POST", "/api/v1/chat/completions", body=body)) as lines:
        for line in lines:
            if line == "data: [DONE]":
                return
            if not line.startswith("data:"):
                continue
            event = client.parse(line.removeprefix("data:"))
            if error := event.get("error"):
                message = error["message"] if isinstance(error, dict) and "message" in error else error
                raise UpstreamError(f"the answer broke off: {message}")
            for choice in event.get("choices") or []:
                if text := (choice.get("delta") or {}).get("content"):
                    yield text
    raise UpstreamError("the answer broke off before its end", hint="`lemonpod status` says what runs")
