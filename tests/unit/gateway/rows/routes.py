"""Which routes there are, for which methods, and who may ask them (parts B1 and B2)."""

from __future__ import annotations

from typing import Final

from tests.unit.gateway.rows.row import (
    ADMIN,
    CHAT,
    FORM,
    KEY,
    NO_PATH,
    POST_ONLY,
    PREFIXES,
    Row,
    anything,
    form,
    has,
)

ROUTES: Final = (
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
        "/internal/simulate-vram-pressure",
        "POST",
        "/internal/simulate-vram-pressure",
        200,
        {"status": "ok"},
        {"pct": 0.95},
    ),
    Row(
        "/internal/simulate-vram-pressure with what is no share",
        "POST",
        "/internal/simulate-vram-pressure",
        400,
        has("error"),
        {"pct": 95},
    ),
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
)
