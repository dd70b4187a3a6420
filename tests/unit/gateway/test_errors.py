"""Every error has its answer (H37), in Lemonade's envelopes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lemonpod import errors
from lemonpod.errors import (
    CoolingDownError,
    EngineExitedError,
    EngineStoppedError,
    LemonpodError,
    MalformedRequestError,
    ModelNotFoundError,
    ModelNotLoadedError,
    NoPortError,
    PlatformNotSupportedError,
    RequestTimeoutError,
    RequestTooLargeError,
    StartTimeoutError,
    UnauthorizedError,
    UnsupportedOperationError,
    UpstreamError,
    WrongModelTypeError,
)
from lemonpod.gateway.errors import TABLE, answer_to, envelope, row_of


def tree(root: type[LemonpodError]) -> Iterator[type[LemonpodError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


# A server installs nothing.
ANSWERED = [kind for kind in tree(LemonpodError) if not issubclass(kind, errors.InstallError)][1:]


@pytest.mark.parametrize("kind", ANSWERED)
def test_every_error_class_has_a_row_of_its_own_family(kind: type[LemonpodError]) -> None:
    assert 400 <= row_of(kind).status <= 599


def test_an_error_without_a_row_is_a_bug() -> None:
    with pytest.raises(KeyError, match="LemonpodError has no row"):
        row_of(LemonpodError)


def test_a_new_error_inherits_its_parents_answer() -> None:
    class StrangeLaunchError(errors.LaunchError):
        pass

    assert row_of(StrangeLaunchError) is TABLE[errors.LaunchError]


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (MalformedRequestError("x"), 400, False),
        (UnsupportedOperationError("x"), 400, False),
        (UnauthorizedError("x"), 401, False),
        (ModelNotFoundError("x", model="m"), 404, False),
        (ModelNotLoadedError("x"), 404, False),
        (RequestTimeoutError("x"), 408, True),
        (RequestTooLargeError("x"), 413, False),
        (PlatformNotSupportedError("x"), 404, False),
        (EngineExitedError("x"), 500, False),
        (StartTimeoutError("x"), 500, False),
        (UpstreamError("x"), 502, True),
        (CoolingDownError("x", retry_after=3.2), 503, True),
        (EngineStoppedError("x"), 503, True),
        (NoPortError("x"), 503, True),
    ],
)
def test_status_and_whether_a_retry_can_help(error: LemonpodError, status: int, retry: bool) -> None:
    answer = answer_to(error, model="m")

    assert answer.status == status
    assert answer.headers.get("x-should-retry") == (None if retry else "false")
    assert ("Retry-After" in answer.headers) is (status == 503)


def test_a_cool_down_says_how_long() -> None:
    assert answer_to(CoolingDownError("x", retry_after=3.2)).headers["Retry-After"] == "4"
    assert answer_to(CoolingDownError("x", retry_after=0.0)).headers["Retry-After"] == "1"


def test_an_unknown_model() -> None:
    error = ModelNotFoundError("Model 'x' was not found.", model="x")

    assert envelope(error) == {
        "error": {
            "message": "Model 'x' was not found.",
            "type": "model_not_found",
            "param": "model",
            "code": "model_not_found",
            "requested_model": "x",
        }
    }


def test_a_failed_load_tells_the_cause_and_the_last_lines() -> None:
    error = EngineExitedError(
        "the engine was killed by signal 9 (SIGKILL)", signal=9, log_tail=["a", "b"], hint="out of memory?"
    )

    assert envelope(error, model="M") == {
        "error": {
            "message": (
                "Failed to load model 'M': the engine was killed by signal 9 (SIGKILL); "
                "its last line: b (out of memory?)"
            ),
            "type": "model_load_error",
            "param": "model",
            "code": "model_load_error",
            "requested_model": "M",
            "details": {
                "cause": "engine_exited",
                "hint": "out of memory?",
                "exit_code": None,
                "signal": 9,
                "log_tail": ["a", "b"],
            },
        }
    }


def test_plain_and_typed_errors() -> None:
    assert envelope(MalformedRequestError("Invalid JSON")) == {"error": "Invalid JSON"}
    assert envelope(UnauthorizedError("Invalid or missing API key")) == {
        "error": "Invalid or missing API key"
    }
    assert envelope(UnsupportedOperationError("Embeddings not supported by cpu"))["error"]["type"] == (
        "unsupported_operation"
    )
    assert envelope(WrongModelTypeError("x"))["error"]["type"] == "invalid_request_error"


def test_any_text_makes_a_body() -> None:
    answer = answer_to(MalformedRequestError("half \ud800 a character"))

    assert isinstance(json.dumps(answer.envelope).encode(), bytes)
    assert json.loads(json.dumps(answer.envelope))
