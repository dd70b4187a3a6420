"""An engine's errors in the shape that clients know (H47)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lemonpod.gateway.engine_errors import engine_envelope


def told(status: int, text: str) -> dict[str, Any]:
    error: dict[str, Any] = engine_envelope(status, text, recipe="r")["error"]
    return error


def test_an_openai_error_is_kept() -> None:
    own = {"message": "no", "type": "server_error", "code": 500, "param": None, "n_ctx": 4}

    assert told(500, json.dumps({"error": own})) == own | {
        "details": {"backend": "r", "response": {"error": own}},
        "status_code": 500,
    }


def test_the_engines_own_details_are_kept() -> None:
    own = {"error": {"message": "no", "details": {"layer": 3}}}
    text = json.dumps(own)

    assert told(400, text)["details"] == {"layer": 3, "backend": "r", "response": own}
    assert told(400, text)["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("status", "text", "message", "kind"),
    [
        (500, "internal: CUDA OOM", "internal: CUDA OOM", "backend_error"),
        (
            502,
            "<html><body>Bad gateway</body></html>",
            "<html><body>Bad gateway</body></html>",
            "backend_error",
        ),
        (422, '{"detail":[{"loc":["body"]}]}', '{"detail":[{"loc":["body"]}]}', "invalid_request_error"),
        (404, '{"error":"File Not Found"}', "File Not Found", "invalid_request_error"),
        (400, '{"error":{"code":400}}', '{"error":{"code":400}}', "invalid_request_error"),
        (500, '"just a string"', '"just a string"', "backend_error"),
        (503, "", "r answered with status 503", "backend_error"),
        (500, "[" * 50_000, "[" * 2000, "backend_error"),
        (500, "x" * 50_000, "x" * 2000, "backend_error"),
    ],
)
def test_anything_else_is_wrapped_with_its_text(
    status: int, text: str, message: str, kind: str
) -> None:  # H47
    error = told(status, text)

    assert (error["message"], error["type"], error["status_code"]) == (message, kind, status)
    assert error["details"]["backend"] == "r"
    assert len(json.dumps(error)) < 10_000


def test_a_wrapped_json_answer_is_there_as_json() -> None:
    assert told(422, '{"detail":"x"}')["details"]["response"] == {"detail": "x"}


@pytest.mark.parametrize(
    "own",
    [
        {"message": "the request exceeds the available context size, try increasing it", "code": 400},
        {"message": "too long", "type": "exceed_context_size_error", "code": 400},
        {"message": "This model's maximum context length is 64 tokens.", "type": "BadRequestError"},
    ],
)
def test_a_context_overflow_gets_openais_code(own: dict[str, Any]) -> None:
    assert told(400, json.dumps({"error": own}))["code"] == "context_length_exceeded"


@pytest.mark.parametrize("text", ['{"a":NaN}', '{"a":1e999}', '{"a":-Infinity}', '{"a":"\\ud800"}'])
def test_what_comes_out_is_always_json(text: str) -> None:
    out = json.dumps(told(500, text), allow_nan=False)

    assert json.loads(out)
