"""What the fake engine says on each route."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fake_engine.habits import Habits
    from tests.fake_engine.server import Answer, Request, Server

QUIET = frozenset({"/health", "/v1/models", "/moved"})
"""Routes that count as no inference request and know no bad habit but late readiness."""

WORDS = ("Hello", " from", " the", " fake", " engine", ".", " 日本語", " And", " more", "!")
PNG = b"\x89PNG\r\n\x1a\n"
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt \x00\xff"


def quiet(server: Server, request: Request, answer: Answer) -> None:
    """Health, the model list and the engine's own records."""
    habits = server.habits
    match request.path:
        case "/health":
            ready = time.monotonic() - server.started >= habits.ready_after
            answer.send(
                200 if ready else habits.ready_status, _json({"status": "ok" if ready else "loading"})
            )
        case "/moved":
            answer.send(302, headers=[("Location", "/health")])
        case "/v1/models":
            answer.send(200, _json({"object": "list", "data": [{"id": server.model, "object": "model"}]}))
        case "/__last":
            answer.send(200, _json(server.last))
        case "/__stats":
            answer.send(200, _json(server.counts))
        case _:
            answer.send(404, _json({"error": {"message": f"no such record {request.path}"}}))


def infer(server: Server, request: Request, answer: Answer, habits: Habits) -> None:
    """An inference request, answered with the habits that it met."""
    headers = [("Set-Cookie", habits.set_cookie)] if habits.set_cookie else []
    if habits.redirect:
        answer.send(302, headers=[("Location", habits.redirect)])
    elif habits.error_status:
        error = {"message": "the fake engine refuses", "type": "fake_error", "code": habits.error_status}
        answer.send(habits.error_status, _json({"error": error}))
    elif habits.short_body:
        answer.send(200, b"12345", length=100)
        answer.close()
    else:
        found = _reply(server, request)
        if found is None:
            error = {"message": f"File Not Found: {request.path}", "type": "not_found_error", "code": 404}
            answer.send(404, _json({"error": error}))
        elif isinstance(found, _Stream):
            stream(found, answer, habits, headers)
        else:
            body, content_type = found
            answer.send(200, body, content_type, headers=headers, gzip=habits.gzip)


def stream(kind: _Stream, answer: Answer, habits: Habits, headers: list[tuple[str, str]]) -> None:
    """Server-sent events, with whatever goes wrong in them."""
    answer.start_chunks("text/event-stream", headers)
    for index in range(habits.tokens):
        event = b"data: " + _json(kind.event(WORDS[index % len(WORDS)], last=False)) + b"\n\n"
        answer.chunk(event)
        if habits.silent_stream:
            answer.pause(600)
        if index == 1 and habits.drop_mid_stream:
            answer.pause(0.05)  # a reset overtakes what the peer has not read yet
            answer.reset()
        answer.pause(habits.token_delay)
    if habits.stream_error:
        answer.chunk(b'error: {"code":400,"message":"too long"}\n\n')
    else:
        answer.chunk(b"data: " + _json(kind.event("", last=True)) + b"\n\n")
    answer.chunk(b"data: [DONE]\n\n")
    answer.end_chunks()


class _Stream:
    def __init__(self, *, chat: bool, model: str) -> None:
        self._chat = chat
        self._model = model

    def event(self, text: str, *, last: bool) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop" if last else None}
        choice |= {"delta": {} if last else {"content": text}} if self._chat else {"text": text}
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        return {"id": "fake-1", "object": kind, "created": 1, "model": self._model, "choices": [choice]}


def _reply(server: Server, request: Request) -> _Stream | tuple[bytes, str] | None:
    path = request.path
    asked = request.json() if isinstance(request.json(), dict) else {}
    model = str(asked.get("model", server.model))
    if path in ("/v1/chat/completions", "/v1/completions"):
        chat = path == "/v1/chat/completions"
        if asked.get("stream"):
            return _Stream(chat=chat, model=model)
        text = "".join(WORDS[index % len(WORDS)] for index in range(server.habits.tokens))
        return _ok(_completion(text, chat=chat, model=model))
    if path in ("/v1/audio/transcriptions", "/v1/images/edits", "/v1/images/variations", "/inference"):
        parts = _parts(request)
        if parts.get("response_format", {}).get("value") == "srt":
            return b"1\n00:00:00,000 --> 00:00:01,000\nhello\n", "text/plain; charset=utf-8"
        return _ok({"text": "hello", "parts": parts, "created": 1, "data": [{"b64_json": "iVBORw0K"}]})
    if path == "/v1/slots" and request.method == "GET":
        return _ok([{"id": 0, "is_processing": False}])
    if path.startswith("/v1/slots/"):
        return _ok({"id_slot": path.rpartition("/")[2], "n_erased": 0})
    return _plain(path, asked, model)


def _plain(path: str, asked: dict[str, Any], model: str) -> tuple[bytes, str] | None:
    inputs = asked.get("input", [])
    inputs = inputs if isinstance(inputs, list) else [inputs]
    match path:
        case "/v1/embeddings":
            rows = [
                {"object": "embedding", "index": n, "embedding": [0.1, 0.2, 0.3]} for n in range(len(inputs))
            ]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            return _ok({"object": "list", "data": rows, "model": model, "usage": usage})
        case "/v1/rerank":
            documents = asked.get("documents", [])
            scores = [{"index": n, "relevance_score": 1.0 / (n + 1)} for n in range(len(documents))]
            return _ok({"model": model, "results": scores})
        case "/v1/responses":
            content = [{"type": "output_text", "text": "hello"}]
            output = [{"type": "message", "role": "assistant", "content": content}]
            return _ok({"id": "resp_1", "object": "response", "model": model, "output": output})
        case "/v1/audio/speech":
            return WAV * 50, "audio/wav"
        case "/v1/audio/generations":
            return WAV * 50, "audio/wav"
        case "/v1/3d/generations":
            return b"glTF\x02\x00\x00\x00", "model/gltf-binary"
        case "/v1/images/generations":
            return _ok({"created": 1, "data": [{"b64_json": "iVBORw0K"}]})
        case "/v1/classify":
            return _ok({"data": [{"label": "fake", "score": 0.9}]})
        case "/v1/tokenize" | "/tokenize":
            return _ok({"tokens": [1, 2, 3]})
        case _:
            return None


def _completion(text: str, *, chat: bool, model: str) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    return {
        "id": "fake-1",
        "object": "chat.completion" if chat else "text_completion",
        "created": 1,
        "model": model,
        "choices": [choice],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    }


def _parts(request: Request) -> dict[str, dict[str, Any]]:
    """The fields of a multipart body: text values, and the names and sizes of files."""
    boundary = re.search(r'boundary="?([^";]+)', request.header("content-type"))
    if boundary is None:
        return {}
    parts: dict[str, dict[str, Any]] = {}
    for part in request.body.split(b"--" + boundary[1].encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        content = content.removesuffix(b"\r\n")
        name = re.search(rb'[ ;]name="?([^";\r\n]*)', head)
        filename = re.search(rb'filename="([^"\r\n]*)"', head)
        key = name[1].decode() if name else ""
        if filename:
            parts[key] = {"filename": filename[1].decode(), "size": len(content)}
        else:
            parts[key] = {"value": content.decode("utf-8", "replace")}
    return parts


def _ok(value: Any) -> tuple[bytes, str]:
    return _json(value), "application/json"


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")
