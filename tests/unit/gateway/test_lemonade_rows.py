"""Lemonade's HTTP interface, row by row: each names what is asked and what must be answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from lemonpod.contract.vocabulary import CAPABILITIES
from lemonpod.gateway.settings import GatewaySettings
from tests.factories import make_document
from tests.fakes.driver import Connection
from tests.unit.gateway.test_gates import MODEL
from tests.unit.gateway.wire import Reply, chunked, ok
from tests.unit.gateway.world import Starter

PREFIXES: Final = ("/api/v0", "/api/v1", "/v0", "/v1")
CHAT: Final = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
FORM: Final = {"Content-Type": "multipart/form-data; boundary=x"}
NO_PATH: Final = "The requested endpoint does not exist"


def anything(document: Any) -> bool:
    """Any JSON will do."""
    return True


def form(**fields: str) -> bytes:
    parts = (f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items())
    return ("".join(parts) + "--x--\r\n").encode()


@dataclass(frozen=True)
class Row:
    name: str
    method: str
    path: str
    status: int
    answer: Mapping[str, Any] | Callable[[Any], bool] = field(default_factory=dict)
    """Members that the JSON answer must have, or what must hold of it."""
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    settings: GatewaySettings | None = None
    loaded: bool = False


def error(message: str, kind: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind}}


def has(*names: str) -> Callable[[Any], bool]:
    return lambda document: set(names) <= document.keys()


KEY: Final = GatewaySettings(api_key="k")
ADMIN: Final = GatewaySettings(api_key="k", admin_api_key="a")
POST_ONLY: Final = {"error": "Method Not Allowed. Use POST for this endpoint"}

ROWS: Final = (
    # --- B1: routes of one kind each
    *(
        Row(f"GET {prefix}/{path}", "GET", f"{prefix}/{path}", 200, anything)
        for prefix in PREFIXES
        for path in ("health", "models", "models/m", "stats", "system-info", "system-stats", "params")
    ),
    *(
        Row(f"POST {prefix}{path}", "POST", f"{prefix}{path}", 200, anything, body)
        for prefix in PREFIXES
        for path, body in (
            ("/chat/completions", CHAT),
            ("/completions", {"model": "m", "prompt": "x"}),
            ("/responses", {"model": "m", "input": "x"}),
            ("/classify", {"model": "m", "input": "x"}),
            ("/tokenize", {"model": "m", "content": "x"}),
            ("/slots/1?action=erase", {"model": "m"}),
            ("/load", {"model_name": "m"}),
            ("/unload", {}),
            ("/params", {}),
        )
    ),
    *(
        Row(
            f"POST /v1{path} (by another model)", "POST", f"/v1{path}", 200, anything, {"model": model} | body
        )
        for path, model, body in (
            ("/embeddings", "embed", {"input": "x"}),
            ("/rerank", "rank", {"query": "x", "documents": []}),
            ("/reranking", "rank", {"query": "x", "documents": []}),
            ("/reranker", "rank", {"query": "x", "documents": []}),
            ("/audio/speech", "say", {"input": "x"}),
            ("/audio/generations", "say", {"prompt": "x"}),
            ("/images/generations", "draw", {"prompt": "x"}),
            ("/3d/generations", "draw", {"prompt": "x"}),
        )
    ),
    *(
        Row(f"POST /v1{path}, a form", "POST", f"/v1{path}", 200, anything, form(model="m", file="y"), FORM)
        for path in ("/audio/transcriptions", "/images/edits", "/images/variations")
    ),
    *(
        Row(f"GET of {path}, which is for POST", "GET", f"/api/v1/{path}", 405, POST_ONLY)
        for path in ("chat/completions", "embeddings", "load", "unload", "audio/speech", "log-level")
    ),
    *(
        Row(f"GET of {path}, which is for POST", "GET", path, 405, POST_ONLY)
        for path in ("/api/chat", "/api/generate", "/api/embed", "/api/show", "/v1/messages")
    ),
    Row("HEAD of a listed route", "HEAD", "/api/v1/chat/completions", 405),
    Row("HEAD of another", "HEAD", "/api/v1/nothing", 404),
    Row("/live", "GET", "/live", 200, {"status": "ok"}),
    Row("HEAD /live", "HEAD", "/live", 200),
    Row("/", "GET", "/", 200),
    Row("Ollama: tags", "GET", "/api/tags", 200, has("models")),
    Row("Ollama: ps", "GET", "/api/ps", 200, {"models": []}),
    Row("Ollama: version", "GET", "/api/version", 200, has("version")),
    Row(
        "Ollama: show", "POST", "/api/show", 200, has("details", "model_info", "capabilities"), {"model": "m"}
    ),
    Row("Ollama: chat", "POST", "/api/chat", 200, {"done": True}, CHAT | {"stream": False}),
    Row(
        "Ollama: generate",
        "POST",
        "/api/generate",
        200,
        {"done": True},
        {"model": "m", "prompt": "x", "stream": False},
    ),
    Row(
        "Ollama: embed", "POST", "/api/embed", 200, {"embeddings": [[1.0]]}, {"model": "embed", "input": "x"}
    ),
    Row(
        "Ollama: embeddings",
        "POST",
        "/api/embeddings",
        200,
        {"embedding": [1.0]},
        {"model": "embed", "prompt": "x"},
    ),
    *(
        Row(f"Ollama: {name} is unsupported", "POST", f"/api/{name}", 400, has("error"), {})
        for name in ("create", "copy", "push", "blobs/sha256:0")
    ),
    Row("Anthropic: messages", "POST", "/v1/messages", 200, {"type": "message"}, CHAT | {"max_tokens": 5}),
    Row("Anthropic: count_tokens", "POST", "/v1/messages/count_tokens", 200, {"input_tokens": 3}, CHAT),
    Row("/internal/shutdown", "POST", "/internal/shutdown", 200, {"status": "shutting down"}),
    Row(
        "an unknown path",
        "GET",
        "/nope",
        404,
        {"error": {"message": NO_PATH, "type": "not_found", "path": "/nope"}},
    ),
    Row("OPTIONS", "OPTIONS", "/api/v1/models", 204),
    Row(
        "a page that may not call",
        "GET",
        "/v1/models",
        403,
        {"error": "Origin not allowed"},
        headers={"Origin": "https://elsewhere.example"},
    ),
    # --- B2: keys
    *(
        Row(
            f"{path} without its key", "GET", path, 401, {"error": "Invalid or missing API key"}, settings=KEY
        )
        for path in ("/api/v1/models", "/v0/health", "/v1/stats", "/api/tags", "/metrics", "/mcp")
    ),
    Row(
        "/internal without its key",
        "GET",
        "/internal/engines",
        401,
        {"error": "Invalid or missing admin API key"},
        settings=KEY,
    ),
    Row(
        "a user's key does not administer",
        "GET",
        "/internal/engines",
        401,
        {"error": "Invalid or missing admin API key"},
        headers={"Authorization": "Bearer k"},
        settings=ADMIN,
    ),
    Row(
        "the admin's key is as good",
        "GET",
        "/v1/models",
        200,
        has("data"),
        headers={"Authorization": "Bearer a"},
        settings=ADMIN,
    ),
    Row("/live needs no key", "GET", "/live", 200, settings=KEY),
    Row("OPTIONS needs no key", "OPTIONS", "/v1/models", 204, settings=KEY),
    # --- B3: shapes
    Row(
        "health",
        "GET",
        "/v1/health",
        200,
        loaded=True,
        answer=has(
            *("status", "version", "telemetry", "model_loaded", "all_models_loaded", "max_models"),
            *("pinned_models", "pinned_helper_models", "update_check_done"),
        ),
    ),
    Row(
        "an item of all_models_loaded",
        "GET",
        "/v1/health",
        200,
        loaded=True,
        answer=lambda health: has(
            *("model_name", "checkpoint", "type", "residency_class", "slot_pool", "device", "backend_url"),
            *("pid", "launch_command", "status", "backend_alive", "backend_health", "loaded"),
            *("watchdog_reset", "pinned", "recipe", "recipe_options", "is_busy", "is_streaming", "last_use"),
        )(health["all_models_loaded"][0]),
    ),
    Row(
        "an item of models",
        "GET",
        "/v1/models?show_all=true",
        200,
        lambda models: (
            models["object"] == "list"
            and has(
                *("id", "object", "created", "owned_by", "checkpoint", "checkpoints", "recipe", "downloaded"),
                *("update_available", "suggested", "source", "registry_source", "labels", "components"),
                "recipe_options",
            )(models["data"][0])
        ),
    ),
    Row(
        "load",
        "POST",
        "/v1/load",
        200,
        {"status": "success", "model_name": "user.m", "recipe": "test-engine"},
        {"model_name": "m"},
    ),
    Row(
        "unload of one",
        "POST",
        "/v1/unload",
        200,
        {"status": "success", "message": "Model unloaded successfully", "model_name": "user.m"},
        {"model_name": "m"},
        loaded=True,
    ),
    Row("unload of all", "POST", "/v1/unload", 200, {"message": "All models unloaded successfully"}, {}),
    Row("unload of none", "POST", "/v1/unload", 404, {"error": "Model not loaded: m"}, {"model": "m"}),
    Row(
        "stats",
        "GET",
        "/v1/stats",
        200,
        has(
            *("input_tokens", "output_tokens", "time_to_first_token", "tokens_per_second", "prompt_tokens"),
            *("cache_tokens", "request_count_total", "input_tokens_total", "output_tokens_total"),
            *("prompt_tokens_total", "routing_decisions_total", "routing_switches_total"),
        ),
    ),
    Row("params is what was set", "GET", "/v1/params", 200, {}),
    Row("params of no setting", "POST", "/v1/params", 400, has("error"), {"nope": 1}),
    Row("log-level of no level", "POST", "/v1/log-level", 400, has("error"), {"level": 5}),
    Row(
        "system-stats",
        "GET",
        "/v1/system-stats",
        200,
        has("cpu_percent", "memory_gb", "gpu_percent", "vram_gb", "npu_percent"),
    ),
    Row(
        "tokenize without content",
        "POST",
        "/v1/tokenize",
        400,
        {"error": "'content' parameter is required"},
        {"model": "m"},
    ),
    Row("a slot that is no number", "POST", "/v1/slots/x?action=erase", 400, has("error"), {"model": "m"}),
    Row("a slot's unknown action", "POST", "/v1/slots/1?action=boil", 400, has("error"), {"model": "m"}),
    Row(
        "a transcription that is no form",
        "POST",
        "/v1/audio/transcriptions",
        400,
        has("error"),
        {"model": "m"},
    ),
    Row(
        "a transcription without a file",
        "POST",
        "/v1/audio/transcriptions",
        400,
        {"error": "'file' parameter is required"},
        form(model="m"),
        FORM,
    ),
    Row(
        "speech without input",
        "POST",
        "/v1/audio/speech",
        400,
        {"error": "'input' parameter is required"},
        {"model": "say"},
    ),
    Row(
        "speech that is nothing",
        "POST",
        "/v1/audio/speech",
        502,
        lambda said: said["error"]["message"].startswith("Generation failed: the backend produced no output"),
        {"model": "say", "input": "nothing"},
    ),
    # --- B4: errors
    Row(
        "a model that is not there",
        "POST",
        "/v1/chat/completions",
        404,
        lambda said: (
            said["error"]["code"] == said["error"]["type"] == "model_not_found"
            and said["error"]["param"] == "model"
            and said["error"]["requested_model"] == "nope"
            and said["error"]["message"].startswith("Model 'nope' was not found. Available models include: ")
        ),
        CHAT | {"model": "nope"},
    ),
    Row("models/{id} of none", "GET", "/v1/models/nope", 404, has("error")),
    Row(
        "what the engine cannot do",
        "POST",
        "/v1/embeddings",
        400,
        error("Embeddings not supported by cpu", "unsupported_operation"),
        {"model": "plain", "input": "x"},
    ),
    *(
        Row(
            f"{operation} with a model that is no LLM",
            "POST",
            path,
            400,
            error(
                f"This model does not support {operation}. Only LLM models support this endpoint.",
                "invalid_request_error",
            ),
            {"model": "embed"},
        )
        for operation, path in (
            ("chat completion", "/v1/chat/completions"),
            ("completion", "/v1/completions"),
        )
    ),
    Row(
        "an engine's own error",
        "POST",
        "/v1/chat/completions",
        418,
        lambda said: (
            said["error"]["type"] == "invalid_request_error"
            and said["error"]["status_code"] == 418
            and said["error"]["details"]["backend"] == "test-engine"
        ),
        CHAT | {"engine": "teapot"},
    ),
    Row(
        "a prompt beyond the context",
        "POST",
        "/v1/chat/completions",
        400,
        lambda said: said["error"]["code"] == "context_length_exceeded",
        CHAT | {"engine": "long"},
    ),
    *(
        Row(
            f"{path} without a body",
            "POST",
            path,
            400,
            {"error": "Request body is required but was empty"},
            b"",
        )
        for path in ("/v1/chat/completions", "/v1/load")
    ),
    Row(
        "a body that is no JSON",
        "POST",
        "/v1/chat/completions",
        400,
        lambda said: said["error"].startswith("Invalid JSON in request body: "),
        b"{",
    ),
    Row(
        "no model, and none loaded",
        "POST",
        "/v1/chat/completions",
        400,
        {"error": "No model loaded and no model specified in request"},
        {"messages": []},
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
)


async def engine(connection: Connection) -> None:
    """Answers every route with a document that has all that one of them needs."""
    received = await connection.request()
    document = json.loads(received.body) if received.body.startswith(b"{") else {}
    match document.get("engine"):
        case "teapot":
            await connection.send(ok(b"short and stout", "text/plain").replace(b"200 OK", b"418 Teapot", 1))
        case "long":
            body = json.dumps(error("too long", "exceed_context_size_error")).encode()
            await connection.send(ok(body).replace(b"200 OK", b"400 Bad", 1))
        case "events":
            await connection.send(chunked("text/event-stream", b'data: {"choices": []}\n\n'))
        case _ if document.get("input") == "nothing":
            await connection.send(ok(b"", "audio/wav"))
        case _:
            answer = {
                "model": "anything",
                "choices": [{"message": {"content": "hi"}, "text": "hi", "finish_reason": "stop"}],
                "data": [{"index": 0, "embedding": [1.0]}],
                "tokens": [1, 2, 3],
            }
            await connection.send(ok(json.dumps(answer).encode()))


async def ask(start: Starter, row: Row) -> Reply:
    capabilities = [capability for capability, entry in CAPABILITIES.items() if entry.routes]
    document = make_document(recipe="plain", capabilities=["chat_completion"])
    world = await start(
        engine,
        capabilities=capabilities,
        settings=row.settings,
        files={"plain.json": json.dumps(document)},
        models={
            "embed": MODEL | {"labels": ["embeddings"]},
            "rank": MODEL | {"labels": ["reranking"]},
            "say": MODEL | {"labels": ["tts"]},
            "draw": MODEL | {"labels": ["image"]},
            "plain": MODEL | {"recipe": "plain"},
        },
    )
    if row.loaded:
        await world.post("/v1/load", {"model_name": "m"})
    body = (
        b""
        if row.body is None
        else row.body
        if isinstance(row.body, bytes)
        else json.dumps(row.body).encode()
    )
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **row.headers}
    return await world.request(row.method, row.path, headers, body)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_row(start: Starter, row: Row) -> None:
    reply = await ask(start, row)

    assert reply.status == row.status, reply.body
    if callable(row.answer):
        assert row.answer(reply.json), reply.json
    elif row.answer:
        assert row.answer.items() <= reply.json.items(), reply.json


async def test_the_page(start: Starter) -> None:
    reply = await ask(start, Row("/", "GET", "/", 200))

    assert (reply.value("Content-Type") or "").startswith("text/html")
    assert b"<html" in reply.body


async def test_streams(start: Starter) -> None:
    """B5: the headers of an event stream, and an end that is plain."""
    body = CHAT | {"stream": True, "engine": "events"}
    reply = await ask(start, Row("", "POST", "/v1/chat/completions", 200, body=body))

    assert reply.value("Content-Type") == "text/event-stream"
    assert reply.value("Cache-Control") == "no-cache"
    assert reply.value("Connection") == "keep-alive"
    assert reply.value("X-Accel-Buffering") == "no"
    assert reply.body.endswith(b"data: [DONE]\n\n")


async def test_an_answer_varies_by_origin(start: Starter) -> None:
    reply = await ask(start, Row("", "GET", "/v1/models", 200))

    assert reply.values("Vary") == ["Origin"]
