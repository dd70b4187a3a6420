"""What control requests answer (part B3), where rows/answers.py has it not."""

from __future__ import annotations

from typing import Final

from tests.unit.gateway.rows.row import Row, error, has

CONTROL: Final = (
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
        told={
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-cache",
            "X-Accel-Buffering": "no",
        },
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
    *(
        Row(
            f"pull from {member} {value!r}",
            "POST",
            "/v1/pull",
            400,
            {"error": f"'{member}' {value!r} is not supported; 'huggingface' is"},
            {"model_name": "user.new", "recipe": "test-engine", "checkpoint": "org/repo", member: value},
        )
        for member, value in (
            ("source", "modelscope"),
            ("source", []),
            ("registry_source", "modelscope"),
        )
    ),
    Row(
        "downloads/control of no action",
        "POST",
        "/v1/downloads/control",
        400,
        {"error": "'id' and an 'action' of pause, cancel or remove are required"},
        {"id": "model:user.m", "action": []},
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
