"""What errors say, and in whose words (part B4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.unit.gateway.rows.row import CHAT, FORM, KEY, Row, anthropic, error, form, has, says

MESSAGE: Final = CHAT | {"max_tokens": 5}


def in_plain_words(document: Any) -> bool:
    return isinstance(document["error"], str)


def refused(status: int, why: str) -> Callable[[Any], bool]:
    """The server was, by the engine: nothing says that the client was."""
    told = f"test-engine refused the server's request with status {status}: {why}."
    return lambda said: (
        says(type="backend_error", status_code=502)(said)
        and said["error"]["details"]["status_code"] == status
        and said["error"]["message"].startswith(told)
    )


ERRORS: Final = (
    # --- B4.1: the model is the trouble
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
    Row(
        "models/{id} of none",
        "GET",
        "/v1/models/nope",
        404,
        says(code="model_not_found", type="model_not_found", param="model", requested_model="nope"),
    ),
    Row(
        "a load of what is not there",
        "POST",
        "/v1/load",
        404,
        says(code="model_not_found"),
        {"model_name": "nope"},
    ),
    Row(
        "a model that does not load",
        "POST",
        "/v1/chat/completions",
        500,
        lambda said: (
            says(type="model_load_error", code="model_load_error", param="model", requested_model="lost")(
                said
            )
            and said["error"]["message"].startswith("Failed to load model 'lost': ")
        ),
        CHAT | {"model": "lost"},
    ),
    Row(
        "a model that this system cannot run",
        "POST",
        "/v1/chat/completions",
        404,
        lambda said: (
            says(type="model_not_supported", code="model_not_supported", param="model")(said)
            and said["error"]["message"].startswith("Model 'foreign' is not available on this system. ")
        ),
        CHAT | {"model": "foreign"},
    ),
    # --- B4.2 and B4.7: what the engine cannot do
    *(
        Row(
            f"{operation} of an engine that cannot",
            "POST",
            f"/v1{path}",
            400,
            error(f"{operation} not supported by cpu", "unsupported_operation"),
            {"model": model} | more,
        )
        for operation, path, model, more in (
            ("Chat completion", "/chat/completions", "silent", {"messages": []}),
            ("Completion", "/completions", "silent", {"prompt": "x"}),
            ("Responses", "/responses", "plain", {"input": "x"}),
            ("Embeddings", "/embeddings", "plain", {"input": "x"}),
            ("Reranking", "/rerank", "plain", {"query": "x", "documents": []}),
            ("Classification", "/classify", "plain", {"input": "x"}),
            ("Slots", "/slots/1?action=erase", "plain", {}),
            ("Tokenization", "/tokenize", "plain", {"content": "x"}),
            ("Text to speech", "/audio/speech", "plain", {"input": "x"}),
            ("Image generation", "/images/generations", "plain", {"prompt": "x"}),
            ("Audio generation", "/audio/generations", "plain", {"prompt": "x"}),
            ("3D generation", "/3d/generations", "plain", {"image": "x"}),
        )
    ),
    *(
        Row(
            f"{operation} of an engine that cannot, a form",
            "POST",
            f"/v1{path}",
            400,
            error(f"{operation} not supported by cpu", "unsupported_operation"),
            form(model="plain", file="y"),
            FORM,
        )
        for operation, path in (
            ("Audio transcription", "/audio/transcriptions"),
            ("Image editing", "/images/edits"),
            ("Image variations", "/images/variations"),
        )
    ),
    # --- B4.6: the model's type comes first
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
    # --- B4.3 and B4.4: what engines say
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
    Row(
        "a prompt beyond the context, in vLLM's words",
        "POST",
        "/v1/chat/completions",
        400,
        says(type="BadRequestError", code="context_length_exceeded"),
        CHAT | {"engine": "vllm long"},
    ),
    Row(
        "an engine's error keeps the type that it gave",
        "POST",
        "/v1/chat/completions",
        422,
        says(
            message="no such voice",
            type="voice_error",
            status_code=422,
            details={"backend": "test-engine", "response": error("no such voice", "voice_error")},
        ),
        CHAT | {"engine": "own error"},
    ),
    Row(
        "an engine that fails",
        "POST",
        "/v1/chat/completions",
        500,
        says(
            message="CUDA out of memory",
            type="backend_error",
            status_code=500,
            details={"backend": "test-engine", "response": "CUDA out of memory"},
        ),
        CHAT | {"engine": "out of memory"},
    ),
    *(
        Row(
            f"an engine that refuses the server with {status}",
            "POST",
            "/v1/chat/completions",
            502,
            refused(status, why),
            CHAT | {"engine": how},
        )
        for how, status, why in (("login", 401, "Invalid API Key"), ("forbidden", 403, "go away"))
    ),
    Row(
        "an engine that breaks off",
        "POST",
        "/v1/embeddings",
        502,
        says(type="network_error"),
        {"model": "embed", "input": "x", "engine": "gone"},
    ),
    # --- B4.5: plain words
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
    Row("a load of no model", "POST", "/v1/load", 400, has("error"), {}),
    *(
        Row(
            f"{path}: a body that is no JSON",
            "POST",
            path,
            400,
            lambda said: said["error"].startswith("Invalid JSON in request body: "),
            b"{",
        )
        for path in (
            "/v1/load",
            "/v1/unload",
            "/v1/pull",
            "/v1/delete",
            "/v1/models/register",
            "/v1/embeddings",
            "/v1/responses",
            "/v1/classify",
            "/v1/images/generations",
        )
    ),
    # --- the same in other APIs' words
    *(
        Row(
            f"Anthropic: GET of {path}",
            "GET",
            path,
            405,
            anthropic("Method Not Allowed. Use POST for this endpoint", "invalid_request_error"),
            told={"Allow": "POST"},
        )
        for path in ("/v1/messages", "/api/v1/messages", "/v1/messages/count_tokens")
    ),
    Row(
        "Anthropic: a path below",
        "POST",
        "/v1/messages/batches",
        404,
        anthropic("The requested endpoint does not exist", "not_found_error"),
        {},
    ),
    Row(
        "Anthropic: without a key",
        "POST",
        "/v1/messages",
        401,
        anthropic("Invalid or missing API key", "authentication_error"),
        MESSAGE,
        settings=KEY,
    ),
    Row(
        "Anthropic: GET without a key",
        "GET",
        "/v1/messages",
        401,
        anthropic("Invalid or missing API key", "authentication_error"),
        settings=KEY,
    ),
    *(
        Row(
            f"Anthropic: a page that may not {method}",
            method,
            "/v1/messages",
            403,
            anthropic("Origin not allowed", "permission_error"),
            MESSAGE,
            headers={"Origin": "https://elsewhere.example"},
        )
        for method in ("POST", "GET")
    ),
    Row(
        "Anthropic: an engine that refuses the server",
        "POST",
        "/v1/messages",
        502,
        lambda said: said["type"] == "error" and said["error"]["type"] == "api_error",
        MESSAGE | {"metadata": {"user_id": "login"}},
    ),
    Row("Ollama: GET of /api/chat", "GET", "/api/chat", 405, has("error"), told={"Allow": "POST"}),
    Row(
        "Ollama: an engine that fails",
        "POST",
        "/api/chat",
        500,
        {"error": "CUDA out of memory"},
        CHAT | {"stream": False, "options": {"engine": "out of memory"}},
    ),
    Row(
        "Ollama: a model that does not load",
        "POST",
        "/api/chat",
        500,
        lambda said: said["error"].startswith("Failed to load model 'lost': "),
        CHAT | {"model": "lost"},
    ),
    Row(
        "Ollama: a model that is not there",
        "POST",
        "/api/show",
        404,
        in_plain_words,
        {"model": "nope"},
    ),
    Row(
        "Ollama: a body that is no JSON",
        "POST",
        "/api/show",
        400,
        in_plain_words,
        b"{",
    ),
)
