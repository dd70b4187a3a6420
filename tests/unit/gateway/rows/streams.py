"""How answers come, and what requests are turned into (part B5)."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.unit.gateway.rows.engine import DONE, WORD
from tests.unit.gateway.rows.row import CHAT, Row, anything

EVENTS: Final = CHAT | {"stream": True}
HIGH: Final = {"type": "object", "properties": {"s": {"type": "string", "maxLength": 2000}}}


def tool(schema: Any) -> Any:
    return {"type": "function", "function": {"name": "pick", "parameters": schema}}


def _blocks(body: bytes) -> list[tuple[str, int]]:
    """The events of Anthropic's blocks, with the blocks' numbers."""
    events = [json.loads(event.partition(b"data: ")[2]) for event in body.split(b"\n\n") if event]
    return [
        (event["type"].removeprefix("content_block_"), event["index"]) for event in events if "index" in event
    ]


STREAMS: Final = (
    Row(
        "the headers of a stream",
        "POST",
        "/v1/chat/completions",
        200,
        body=EVENTS | {"engine": "finished"},
        body_of=lambda body: body.endswith(DONE) and body.count(DONE) == 1,
        told={
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-cache",
            "Connection": "keep-alive",
            "X-Accel-Buffering": "no",
        },
    ),
    Row(
        "[DONE] is there at a clean end",
        "POST",
        "/v1/chat/completions",
        200,
        body=EVENTS | {"engine": "events"},
        body_of=lambda body: body.endswith(DONE),
    ),
    Row(
        "[DONE] of completions too",
        "POST",
        "/v1/completions",
        200,
        body={"model": "m", "prompt": "x", "stream": True, "engine": "events"},
        body_of=lambda body: body.endswith(DONE),
    ),
    Row(
        "an error behind the first words, and no [DONE]",
        "POST",
        "/v1/chat/completions",
        200,
        body=EVENTS | {"engine": "breaking"},
        body_of=lambda body: (
            json.loads(body.rpartition(b"data: ")[2])["error"]["type"] == "network_error"
            and body.endswith(b"\n\n")
            and DONE not in body
        ),
    ),
    Row(
        "an error of the engine's in the stream, and no [DONE]",
        "POST",
        "/v1/chat/completions",
        200,
        body=EVENTS | {"engine": "trouble"},
        body_of=lambda body: body.endswith(b'data: {"error": {"message": "boom"}}\n\n'),
    ),
    Row(
        "Anthropic: an error behind the first words",
        "POST",
        "/v1/messages",
        200,
        body=EVENTS | {"max_tokens": 5, "metadata": {"user_id": "breaking"}},
        body_of=lambda body: (
            json.loads(body.rpartition(b"event: error\ndata: ")[2])["error"]["type"] == "api_error"
        ),
    ),
    Row(
        "Ollama: an error behind the first words",
        "POST",
        "/api/chat",
        200,
        body=CHAT | {"options": {"engine": "breaking"}},
        body_of=lambda body: "broke off" in json.loads(body.splitlines()[-1])["error"],
    ),
    Row(
        "Anthropic: tool calls at the same time",
        "POST",
        "/v1/messages",
        200,
        body=EVENTS | {"max_tokens": 5, "metadata": {"user_id": "two calls"}},
        body_of=lambda body: (
            _blocks(body)
            == [
                *(("start", 0), ("delta", 0), ("delta", 0), ("stop", 0)),
                *(("start", 1), ("delta", 1), ("delta", 1), ("stop", 1)),
            ]
        ),
    ),
    Row(
        "Ollama: tool calls at the same time",
        "POST",
        "/api/chat",
        200,
        body=CHAT | {"options": {"engine": "two calls"}},
        body_of=lambda body: (
            [call["id"] for call in json.loads(body.splitlines()[-2])["message"]["tool_calls"]]
            == ["t0", "t1"]
        ),
    ),
    Row(
        "no model, and one loaded",
        "POST",
        "/v1/chat/completions",
        200,
        anything,
        {"messages": []},
        loaded=True,
    ),
    Row(
        ":latest is no part of a name",
        "POST",
        "/v1/chat/completions",
        200,
        anything,
        CHAT | {"model": "m:latest"},
    ),
    Row(
        "the answer has the name that was asked for",
        "POST",
        "/v1/chat/completions",
        200,
        {"model": "m:latest"},
        CHAT | {"model": "m:latest"},
    ),
    Row(
        "the events have it too",
        "POST",
        "/v1/chat/completions",
        200,
        body=EVENTS | {"model": "m:latest", "engine": "finished"},
        body_of=lambda body: body == WORD.replace(b'"own"', b'"m:latest"') + DONE,
    ),
    Row(
        "the engine knows the model by its own name",
        "POST",
        "/v1/chat/completions",
        200,
        anything,
        CHAT | {"model": "m:latest"},
        sent=lambda body: body == CHAT | {"model": "user.m"},
    ),
    Row(
        "a model that is not loaded is loaded first, and its request's options stay the request's",
        "POST",
        "/v1/chat/completions",
        200,
        anything,
        CHAT | {"temperature": 0},
        sent=lambda body: body["temperature"] == 0,
    ),
    *(
        Row(
            f"llama.cpp: max_tokens beside max_completion_tokens, {path}",
            "POST",
            path,
            200,
            anything,
            {"model": "m", "max_completion_tokens": 7} | more,
            sent=lambda body: body["max_tokens"] == body["max_completion_tokens"] == 7,
            is_variant=True,
        )
        for path, more in (("/v1/chat/completions", {"messages": []}), ("/v1/completions", {"prompt": "x"}))
    ),
    Row(
        "llama.cpp: max_tokens that was said",
        "POST",
        "/v1/chat/completions",
        200,
        anything,
        CHAT | {"max_completion_tokens": 7, "max_tokens": 9},
        sent=lambda body: (body["max_tokens"], body["max_completion_tokens"]) == (9, 7),
        is_variant=True,
    ),
    *(
        Row(
            f"llama.cpp: high bounds of tools, {path}",
            "POST",
            path,
            200,
            anything,
            CHAT | {"input": "x", "stream": False} | more,
            sent=lambda body: "maxLength" not in json.dumps(body["tools"]),
            is_variant=True,
        )
        for path, more in (
            ("/v1/chat/completions", {"tools": [tool(HIGH)]}),
            ("/v1/responses", {"tools": [tool(HIGH)["function"]]}),
            ("/api/chat", {"tools": [tool(HIGH)]}),
            ("/v1/messages", {"max_tokens": 5, "tools": [{"name": "pick", "input_schema": HIGH}]}),
        )
    ),
    Row(
        "other engines: neither",
        "POST",
        "/v1/chat/completions",
        200,
        anything,
        CHAT | {"max_completion_tokens": 7, "tools": [tool(HIGH)]},
        sent=lambda body: "max_tokens" not in body and body["tools"] == [tool(HIGH)],
    ),
)
