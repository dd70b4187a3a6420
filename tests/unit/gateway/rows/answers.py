"""What answers look like, and what errors say (parts B3 to B5)."""

from __future__ import annotations

from typing import Final

from tests.unit.gateway.rows.row import CHAT, FORM, Row, anything, error, form, has

ANSWERS: Final = (
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
