"""The engine behind the rows: the member `engine` of a request says how it is to answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.fakes.driver import Connection
from tests.unit.gateway.rows.row import error
from tests.unit.gateway.wire import chunked, ok

WORD: Final = b'data: {"model": "own", "choices": [{"delta": {"content": "hi"}}]}\n\n'
DONE: Final = b"data: [DONE]\n\n"
_USUAL: Final = {
    "model": "anything",
    "object": "classification",
    "labels": {"sour": 0.75},
    "created": 5,
    "choices": [{"message": {"content": "hi"}, "text": "hi", "finish_reason": "stop"}],
    "data": [{"index": 0, "embedding": [1.0], "b64_json": "aGk="}],
    "tokens": [1, 2, 3],
}


def _failing(status: int, body: str | Mapping[str, Any], content_type: str = "application/json") -> bytes:
    data = (body if isinstance(body, str) else json.dumps(body)).encode()
    return ok(data, content_type).replace(b"200 OK", b"%d X" % status, 1)


def _calls(*parts: tuple[int, str]) -> bytes:
    """An event with fragments of tool calls; one without arguments begins a call."""
    deltas = [
        {"index": number, "function": {"arguments": text}}
        if text
        else {"index": number, "id": f"t{number}", "function": {"name": "pick", "arguments": ""}}
        for number, text in parts
    ]
    return b"data: %b\n\n" % json.dumps({"choices": [{"delta": {"tool_calls": deltas}}]}).encode()


_ANSWERS: Final[Mapping[str, bytes]] = {
    "teapot": _failing(418, "short and stout", "text/plain"),
    "long": _failing(400, error("too long", "exceed_context_size_error")),
    "vllm long": _failing(400, error("This model's maximum context length is 64 tokens.", "BadRequestError")),
    "own error": _failing(422, error("no such voice", "voice_error")),
    "out of memory": _failing(500, "CUDA out of memory", "text/plain"),
    "login": _failing(401, error("Invalid API Key", "authentication_error")),
    "forbidden": _failing(403, "go away", "text/plain"),
    "nothing": ok(b"", "audio/wav"),
    "sound": ok(b"RIFF", "audio/x-own"),
    "untyped": ok(b"RIFF", "application/octet-stream"),
    "events": chunked("text/event-stream", WORD),
    "finished": chunked("text/event-stream", WORD, DONE),
    "trouble": chunked("text/event-stream", WORD, b'data: {"error": {"message": "boom"}}\n\n'),
    "gone": b"",
    "breaking": chunked("text/event-stream", WORD, end=False),
    "two calls": chunked(
        "text/event-stream",
        *(_calls((0, ""), (1, "")), _calls((0, "{")), _calls((1, "{")), _calls((0, "}")), _calls((1, "}"))),
        DONE,
    ),
}
_BREAKING: Final = frozenset({"breaking", "gone"})


async def engine(connection: Connection) -> None:
    """Answers every route with a document that has all that one of them needs, or as it is told to."""
    received = await connection.request()
    document = json.loads(received.body) if received.body.startswith(b"{") else {}
    how = str(document.get("engine") or document.get("user"))
    await connection.send(_ANSWERS.get(how, ok(json.dumps(_USUAL).encode())))
    if how in _BREAKING:
        connection.reset()
