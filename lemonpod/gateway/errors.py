"""Errors as HTTP answers: one table for the status, and Lemonade's envelopes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from lemonpod.errors import (
    ConfigError,
    CoolingDownError,
    EngineError,
    EngineExitedError,
    EngineStoppedError,
    HubBusyError,
    HubNotFoundError,
    HubOfflineError,
    ImageError,
    InvalidModelError,
    LaunchError,
    LemonpodError,
    MalformedRequestError,
    ManifestError,
    ModelNotFoundError,
    ModelNotLoadedError,
    ModelPullError,
    NoPortError,
    NoSlotError,
    NoSpaceError,
    NotDeletableError,
    PlatformNotSupportedError,
    QueueFullError,
    RequestError,
    RequestTimeoutError,
    RequestTooLargeError,
    RuntimeUnavailableError,
    SlotsPinnedError,
    StartTimeoutError,
    TokenError,
    UnauthorizedError,
    UnknownModelError,
    UpstreamError,
)

Envelope = dict[str, Any]

# What openai's clients obey before they look at the status (`_should_retry` in their base client).
NO_RETRY: Final = {"x-should-retry": "false"}
_RETRY_SOON: Final = 1.0


class Form(Enum):
    """The shapes that Lemonade gives an error."""

    TEXT = auto()
    """`{"error": "…"}`"""
    CODED = auto()
    """`{"error": "…", "code"}`"""
    TYPED = auto()
    """`{"error": {"message", "type"}}`"""
    MODEL = auto()
    """The request was fine, the model is the trouble: with `param`, `code` and `requested_model`."""


@dataclass(frozen=True, slots=True)
class Row:
    status: int
    form: Form = Form.TYPED
    retry: bool = True
    """False where the same request can only fail again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of our own, in JSON."""

    status: int
    envelope: Envelope
    headers: Mapping[str, str] = field(default_factory=dict)


# Looked up along the class's MRO, so a new error inherits the answer of its parent.
TABLE: Final[Mapping[type[LemonpodError], Row]] = {
    ConfigError: Row(500, retry=False),
    InvalidModelError: Row(400, Form.TEXT, retry=False),
    ManifestError: Row(500, Form.MODEL, retry=False),
    TokenError: Row(500, Form.MODEL, retry=False),
    ImageError: Row(500, Form.MODEL, retry=False),
    LaunchError: Row(500, Form.MODEL, retry=False),
    PlatformNotSupportedError: Row(404, Form.MODEL, retry=False),
    EngineError: Row(500, Form.MODEL, retry=False),
    CoolingDownError: Row(503),
    EngineStoppedError: Row(503),
    ModelPullError: Row(500, Form.CODED, retry=False),
    HubOfflineError: Row(400, Form.CODED, retry=False),
    HubNotFoundError: Row(404, Form.CODED, retry=False),
    HubBusyError: Row(429, Form.CODED),
    NoSpaceError: Row(507, Form.CODED, retry=False),
    SlotsPinnedError: Row(409, Form.MODEL, retry=False),
    NoSlotError: Row(503),
    NoPortError: Row(503),
    RuntimeUnavailableError: Row(503, Form.MODEL),
    RequestError: Row(400, retry=False),
    MalformedRequestError: Row(400, Form.TEXT, retry=False),
    ModelNotFoundError: Row(404, Form.MODEL, retry=False),
    UnknownModelError: Row(400, Form.CODED, retry=False),
    NotDeletableError: Row(422, Form.TEXT, retry=False),
    ModelNotLoadedError: Row(404, Form.TEXT, retry=False),
    RequestTooLargeError: Row(413, retry=False),
    QueueFullError: Row(429),
    RequestTimeoutError: Row(408),
    UnauthorizedError: Row(401, Form.TEXT, retry=False),
    UpstreamError: Row(502),
}


def row_of(kind: type[LemonpodError]) -> Row:
    """The table's row for an error class, or for its nearest ancestor that has one."""
    for ancestor in kind.__mro__:
        if row := TABLE.get(ancestor):
            return row
    raise KeyError(f"{kind.__name__} has no row in the gateway's error table")


def envelope(error: LemonpodError, *, model: str | None = None) -> Envelope:
    """The body that tells of `error`; `model` is the name that the client asked for."""
    form = row_of(type(error)).form
    if form is Form.TEXT:
        return {"error": str(error)}
    if form is Form.CODED:
        return {"error": str(error), "code": error.code}
    if form is Form.TYPED:
        return typed_envelope(str(error), error.code)
    if isinstance(error, ModelNotFoundError):
        return _model_envelope(str(error), error.code, error.model)
    if isinstance(error, SlotsPinnedError):
        return _model_envelope(str(error), error.code, model)
    code, told = "model_load_error", f"Failed to load model '{model}': {error}"
    if isinstance(error, PlatformNotSupportedError):
        code, told = "model_not_supported", f"Model '{model}' is not available on this system. {error}"
    body = _model_envelope(told if model else str(error), code, model)
    body["error"]["details"] = _details(error)
    return body


def typed_envelope(message: str, kind: str, **more: object) -> Envelope:
    """`{"error": {"message", "type"}}`, Lemonade's most common shape."""
    return {"error": {"message": message, "type": kind, **more}}


def message_of(envelope: Envelope) -> str:
    """What an error's body says, in any of the shapes."""
    error = envelope["error"]
    return str(error["message"] if isinstance(error, dict) else error)


def answer_to(error: LemonpodError, *, model: str | None = None) -> Answer:
    """The whole answer that tells of `error`."""
    row = row_of(type(error))
    headers = {} if row.retry else dict(NO_RETRY)
    if row.status == 503 or isinstance(error, QueueFullError):
        wait = error.retry_after if isinstance(error, CoolingDownError | QueueFullError) else _RETRY_SOON
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    if row.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Answer(row.status, envelope(error, model=model), headers)


def _model_envelope(message: str, code: str, model: str | None) -> Envelope:
    return {
        "error": {
            "message": message,
            "type": code,
            "param": "model",
            "code": code,
            "requested_model": model,
        }
    }


def _details(error: LemonpodError) -> Envelope:
    details: Envelope = {"cause": error.code, "hint": error.hint}
    if isinstance(error, EngineExitedError):
        details |= {"exit_code": error.exit_code, "signal": error.signal}
    if isinstance(error, EngineExitedError | StartTimeoutError):
        details["log_tail"] = list(error.log_tail)
    return details
