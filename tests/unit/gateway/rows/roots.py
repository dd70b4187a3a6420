"""The routes without a prefix, those for administrators, and other APIs' (part B1)."""

from __future__ import annotations

from typing import Final

from tests.unit.gateway.rows.row import CHAT, NO_PATH, POST_ONLY, Row, anything, error, has

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

CONTROL: Final = (
    # --- B3: what control requests answer, where rows/answers.py has it not
    Row(
        "pinned models are counted by their kind",
        "GET",
        "/v1/health",
        200,
        lambda health: (
            set(health["pinned_models"]) == set(health["pinned_helper_models"]) == set(health["max_models"])
            and set(health["pinned_models"].values()) == {0}
        ),
        loaded=True,
    ),
    Row("load of an unknown model", "POST", "/v1/load", 404, has("error"), {"model_name": "nope"}),
    Row("unload of everything by an empty body", "POST", "/v1/unload", 200, {"status": "success"}, b""),
    Row(
        "pull",
        "POST",
        "/v1/pull",
        200,
        {"status": "success", "model_name": "user.m"},
        {"model_name": "m"},
        hub=True,
    ),
    Row(
        "pull, with events of its progress",
        "POST",
        "/v1/pull",
        200,
        body={"model": "m", "stream": True},
        hub=True,
        text="event: complete\ndata: ",
    ),
    Row(
        "pull without waiting is a job",
        "POST",
        "/v1/pull",
        200,
        {"id": "model:user.m", "model_name": "user.m"},
        {"model": "m", "subscribe": False},
        hub=True,
    ),
    Row("pull of none", "POST", "/v1/pull", 400, {"code": "unknown_model"}, {"model_name": "user.nope"}),
    Row(
        "pull of a new model that is not called user.…",
        "POST",
        "/v1/pull",
        400,
        has("error"),
        {"model_name": "new", "recipe": "test-engine", "checkpoint": "org/repo:model.gguf"},
    ),
    Row(
        "delete",
        "POST",
        "/v1/delete",
        200,
        {"status": "success", "message": "Deleted model: user.m"},
        {"model": "m"},
    ),
    Row("params of a setting that needs a restart", "POST", "/v1/params", 400, has("error"), {"port": 13306}),
    Row("params of nothing", "POST", "/v1/params", 400, has("error"), {}),
    Row(
        "internal/set",
        "POST",
        "/internal/set",
        200,
        lambda told: told == {"status": "success", "updated": {"ctx_size": 4096}},
        {"ctx_size": 4096},
    ),
    Row(
        "internal/set of what needs a restart",
        "POST",
        "/internal/set",
        200,
        {
            "status": "success",
            "updated": {"port": 13306},
            "message": "port: used from the next start of the server on",
        },
        {"port": 13306},
    ),
    Row("internal/set of no setting", "POST", "/internal/set", 400, has("error"), {"nope": 1}),
    Row("internal/set of no value", "POST", "/internal/set", 400, has("error"), {"port": "high"}),
    Row("internal/set of nothing", "POST", "/internal/set", 400, has("error"), {}),
    Row(
        "log-level", "POST", "/v1/log-level", 200, {"status": "success", "level": "debug"}, {"level": "debug"}
    ),
    Row(
        "internal/pin",
        "POST",
        "/internal/pin",
        200,
        {"status": "success", "model_name": "user.m", "pinned": True},
        {"model": "m", "pinned": True},
        loaded=True,
    ),
    Row(
        "internal/pin of one that is not loaded",
        "POST",
        "/internal/pin",
        404,
        {"error": "Model not loaded: m"},
        {"model_name": "m", "pinned": True},
    ),
    Row(
        "internal/cleanup-cache",
        "POST",
        "/internal/cleanup-cache",
        200,
        {"orphaned_files": [], "total_bytes": 0, "dry_run": True},
        {},
    ),
    Row("an alias", "POST", "/internal/aliases", 200, {"status": "ok"}, {"alias": "short", "target": "m"}),
    Row(
        "registry/search of too little",
        "GET",
        "/v1/registry/search?query=ab",
        400,
        error("Query parameter 'query' must contain at least 3 characters", "invalid_request_error"),
    ),
)
