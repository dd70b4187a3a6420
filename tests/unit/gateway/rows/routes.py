"""The routes below the prefixes, and the capabilities' among them (part B1).

Each stands here below `/v1`; that it is the same below the other prefixes, a test of its own asks.
"""

from __future__ import annotations

from typing import Final

from tests.unit.gateway.rows.row import CHAT, FORM, POST_ONLY, Row, anything, form, has

ROUTES: Final = (
    *(
        Row(f"GET {path}", "GET", f"/v1/{path}", 200, anything)
        for path in (
            *("health", "models", "models/m", "models/m/files", "models/m/options", "downloads", "stats"),
            *("system-info", "system-stats", "params"),
        )
    ),
    Row("GET slots, of an engine that is loaded", "GET", "/v1/slots", 200, anything, loaded=True),
    # Without a hub: what they find is asked in test_registry and test_pull.
    *(
        Row(f"GET {path} of a server that is offline", "GET", f"/v1/{path}", 400, has("error"))
        for path in ("registry/search?query=lemon", "pull/variants?checkpoint=org/repo")
    ),
    *(
        Row(f"POST {path}", "POST", f"/v1/{path}", 200, anything, body)
        for path, body in (
            ("chat/completions", CHAT),
            ("completions", {"model": "m", "prompt": "x"}),
            ("responses", {"model": "m", "input": "x"}),
            ("classify", {"model": "m", "input": "x"}),
            ("tokenize", {"model": "m", "content": "x"}),
            ("slots/1?action=save", {"model": "m"}),
            ("slots/1?action=restore", {"model": "m"}),
            ("slots/1?action=erase", {"model": "m"}),
            ("models/m/options", {"ctx_size": 512}),
            ("downloads/control", {"id": "model:user.m", "action": "remove"}),
            ("load", {"model_name": "m"}),
            ("unload", {}),
            ("params", {"ctx_size": 512}),
            ("log-level", {"level": "info"}),
        )
    ),
    Row("DELETE models/m/options", "DELETE", "/v1/models/m/options", 200, {"saved": {}}),
    *(
        Row(f"POST {path} (by another model)", "POST", f"/v1/{path}", 200, anything, {"model": model} | body)
        for path, model, body in (
            ("embeddings", "embed", {"input": "x"}),
            ("rerank", "rank", {"query": "x", "documents": []}),
            ("reranking", "rank", {"query": "x", "documents": []}),
            ("reranker", "rank", {"query": "x", "documents": []}),
            ("audio/speech", "say", {"input": "x"}),
            ("audio/generations", "say", {"prompt": "x"}),
            ("images/generations", "draw", {"prompt": "x"}),
            ("3d/generations", "draw", {"prompt": "x"}),
        )
    ),
    *(
        Row(f"POST {path}, a form", "POST", f"/v1/{path}", 200, anything, form(model="m", file="y"), FORM)
        for path in ("audio/transcriptions", "images/edits", "images/variations")
    ),
    Row(
        "POST models/register",
        "POST",
        "/v1/models/register",
        200,
        {"status": "success", "model_name": "user.new"},
        {"model_name": "user.new", "recipe": "test-engine", "checkpoint": "org/repo:model.gguf"},
    ),
    Row("POST models/check-updates, offline", "POST", "/v1/models/check-updates", 409, has("error")),
    *(
        Row(f"GET of models/{path} names no model", "GET", f"/v1/models/{path}", 405, POST_ONLY)
        for path in ("register", "check-updates")
    ),
    Row("POST pull of what lacks nothing, offline", "POST", "/v1/pull", 200, anything, {"model_name": "m"}),
    Row("POST delete of none", "POST", "/v1/delete", 422, has("error"), {"model_name": "nope"}),
    *(
        Row(f"WebSocket {path}, asked without an offer", "GET", path, 426, has("error"))
        for prefix in ("", "/api/v0", "/api/v1", "/v0", "/v1")
        for path in (f"{prefix}/realtime", f"{prefix}/logs/stream")
    ),
)
