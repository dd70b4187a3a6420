"""What answers look like (part B3)."""

from __future__ import annotations

from typing import Final

from tests.unit.gateway.rows.row import FORM, Row, anything, error, form, has, holds

PCM: Final = "audio/l16;rate=24000;endianness=little-endian"

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
        "classify",
        "POST",
        "/v1/classify",
        200,
        {"object": "classification", "model": "m", "labels": {"sour": 0.75}},
        {"model": "m", "input": "x"},
    ),
    Row("tokenize", "POST", "/v1/tokenize", 200, {"tokens": [1, 2, 3]}, {"model": "m", "content": "x"}),
    Row(
        "tokenize of what is no string",
        "POST",
        "/v1/tokenize",
        400,
        {"error": "'content' parameter is required"},
        {"model": "m", "content": 5},
    ),
    *(
        Row(
            f"slots of the last used model: {action}",
            "POST",
            f"/v1/slots/1?action={action}",
            200,
            anything,
            b"",
            loaded=True,
        )
        for action in ("save", "restore", "erase")
    ),
    Row("a list of slots", "GET", "/v1/slots", 200, anything, loaded=True),
    Row("a slot and no action", "POST", "/v1/slots/1", 400, has("error"), {"model": "m"}),
    Row(
        "a transcription without a model",
        "POST",
        "/v1/audio/transcriptions",
        400,
        {"error": "'model' parameter is required"},
        form(file="y"),
        FORM,
    ),
    Row(
        "images that are no form",
        "POST",
        "/v1/images/edits",
        400,
        has("error"),
        {"model": "draw"},
    ),
    Row(
        "images/generations",
        "POST",
        "/v1/images/generations",
        200,
        lambda said: said["created"] == 5 and said["data"][0]["b64_json"] == "aGk=",
        {"model": "draw", "prompt": "x"},
    ),
    Row(
        "speech without a model",
        "POST",
        "/v1/audio/speech",
        400,
        {"error": "'model' parameter is required"},
        {"input": "x"},
    ),
    Row(
        "speech in events",
        "POST",
        "/v1/audio/speech",
        400,
        {"error": "Only 'audio' is supported for stream_format"},
        {"model": "say", "input": "x", "stream_format": "sse"},
    ),
    *(
        Row(
            f"{path}: the format of {said} is {wanted}",
            "POST",
            f"/v1{path}",
            200,
            body={"model": model, "input": "x", "engine": "untyped"} | said,
            body_of=lambda body: body == b"RIFF",
            sent=holds(response_format=wanted),
            told={"Content-Type": kind},
        )
        for path, model, said, wanted, kind in (
            ("/audio/speech", "say", {}, "mp3", "audio/mpeg"),
            ("/audio/speech", "say", {"response_format": None}, "mp3", "audio/mpeg"),
            ("/audio/speech", "say", {"response_format": "opus"}, "opus", "audio/opus"),
            ("/audio/speech", "say", {"response_format": "aac"}, "aac", "audio/aac"),
            ("/audio/speech", "say", {"response_format": "flac"}, "flac", "audio/flac"),
            ("/audio/speech", "say", {"response_format": "odd"}, "odd", "application/octet-stream"),
            ("/audio/speech", "say", {"stream": True}, "pcm", PCM),
            ("/audio/speech", "say", {"stream_format": "audio"}, "pcm", PCM),
            ("/audio/speech", "say", {"stream": True, "response_format": "wav"}, "wav", "audio/wav"),
            ("/audio/generations", "say", {}, "wav", "audio/wav"),
            ("/audio/generations", "say", {"response_format": "mp3"}, "mp3", "audio/mpeg"),
            ("/3d/generations", "draw", {"image": "aGk="}, "glb", "model/gltf-binary"),
        )
    ),
    Row(
        "speech of a type that the engine says",
        "POST",
        "/v1/audio/speech",
        200,
        body={"model": "say", "input": "x", "engine": "sound"},
        body_of=lambda body: body == b"RIFF",
        told={"Content-Type": "audio/x-own"},
    ),
    Row(
        "a shape of another format",
        "POST",
        "/v1/3d/generations",
        400,
        {"error": "response_format 'obj' is not supported (supported: glb)"},
        {"model": "draw", "image": "aGk=", "response_format": "obj"},
    ),
    Row(
        "a shape of what is no image",
        "POST",
        "/v1/3d/generations",
        400,
        {"error": "'image' must be a string: the image in base64"},
        {"model": "draw", "image": 5},
    ),
    *(
        Row(
            f"{path} that is nothing",
            "POST",
            f"/v1{path}",
            502,
            error(
                "Generation failed: the backend produced no output (it likely crashed or ran out of GPU "
                "memory). Check the server logs.",
                "backend_error",
            ),
            {"model": model, "input": "x", "engine": "nothing"},
        )
        for path, model in (
            ("/audio/speech", "say"),
            ("/audio/generations", "say"),
            ("/3d/generations", "draw"),
        )
    ),
)
