"""The routes without a prefix, those for administrators, and other APIs' (part B1)."""

from __future__ import annotations

from typing import Final

from tests.unit.gateway.rows.row import CHAT, NO_PATH, POST_ONLY, Row, anything, has

PAGE: Final = "<html"

ROOTS: Final = (
    Row("/live", "GET", "/live", 200, {"status": "ok"}),
    Row("HEAD /live", "HEAD", "/live", 200),
    Row("/", "GET", "/", 200, text=PAGE),
    Row("/status", "GET", "/status", 200, text=PAGE),
    Row("/metrics", "GET", "/metrics", 200, text="lemonade_server_up 1\n"),
    Row("HEAD /metrics", "HEAD", "/metrics", 200),
    Row("HEAD of another path", "HEAD", "/api/v1/nothing", 404),
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
    # --- for administrators
    Row("internal/shutdown", "POST", "/internal/shutdown", 200, {"status": "shutting down"}),
    Row("internal/config", "GET", "/internal/config", 200, {"port": 13305, "log_level": "info"}),
    Row("internal/config/defaults", "GET", "/internal/config/defaults", 200, {"max_loaded_models": 1}),
    Row("internal/engines", "GET", "/internal/engines", 200, {"engines": []}),
    Row("internal/activity", "GET", "/internal/activity", 200, {"requests": []}),
    Row("internal/logs", "GET", "/internal/logs?model=m", 200, text="", loaded=True),
    Row(
        "internal/simulate-vram-pressure",
        "POST",
        "/internal/simulate-vram-pressure",
        200,
        {"status": "ok"},
        {"pct": 0.95},
    ),
    Row(
        "internal/simulate-vram-pressure with what is no share",
        "POST",
        "/internal/simulate-vram-pressure",
        400,
        has("error"),
        {"pct": 95},
    ),
    Row("internal/aliases", "GET", "/internal/aliases", 200, {"aliases": []}),
    Row("DELETE of no alias", "DELETE", "/internal/aliases/nope", 404, has("error")),
    # --- Ollama
    Row("Ollama: tags", "GET", "/api/tags", 200, has("models")),
    Row("Ollama: ps", "GET", "/api/ps", 200, {"models": []}),
    Row("Ollama: version", "GET", "/api/version", 200, has("version")),
    Row(
        "Ollama: show", "POST", "/api/show", 200, has("details", "model_info", "capabilities"), {"model": "m"}
    ),
    Row("Ollama: show of none", "POST", "/api/show", 404, has("error"), {"model": "nope"}),
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
    Row("Ollama: pull of none", "POST", "/api/pull", 404, has("error"), {"model": "nope"}),
    Row("Ollama: pull without a name", "POST", "/api/pull", 400, {"error": "'name' is required"}, {}),
    Row(
        "Ollama: pull, in one piece",
        "POST",
        "/api/pull",
        200,
        {"status": "success"},
        {"model": "m:latest", "stream": False},
        hub=True,
    ),
    Row(
        "Ollama: pull, line by line",
        "POST",
        "/api/pull",
        200,
        body={"name": "m"},
        hub=True,
        text='{"status": "success"}\n',
    ),
    Row(
        "Ollama: pull that fails under way",
        "POST",
        "/api/pull",
        200,
        body={"name": "gone"},
        hub=True,
        text='{"error": "there is no \'org/gone\' on ',
    ),
    *(
        Row(f"Ollama: {method} delete", method, "/api/delete", 200, body={"model": "m"})
        for method in ("DELETE", "POST")
    ),
    Row("Ollama: delete of none", "DELETE", "/api/delete", 404, has("error"), {"name": "nope"}),
    *(
        Row(f"Ollama: GET of {path}, which is for POST", "GET", path, 405, POST_ONLY)
        for path in ("/api/chat", "/api/generate", "/api/show", "/api/pull", "/api/embed", "/api/embeddings")
    ),
    # --- Anthropic
    *(
        row
        for prefix in ("/v1", "/api/v1")
        for row in (
            Row(
                f"Anthropic: {prefix}/messages",
                "POST",
                f"{prefix}/messages",
                200,
                {"type": "message"},
                CHAT | {"max_tokens": 5},
            ),
            Row(
                f"Anthropic: {prefix}/messages/count_tokens",
                "POST",
                f"{prefix}/messages/count_tokens",
                200,
                {"input_tokens": 3},
                CHAT,
            ),
            Row(f"Anthropic: GET of {prefix}/messages", "GET", f"{prefix}/messages", 405, anything),
        )
    ),
)
