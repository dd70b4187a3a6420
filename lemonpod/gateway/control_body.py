"""The body of a control request, as aiohttp hands it out, and the members that many of them have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import MalformedRequestError
from lemonpod.gateway import keys
from lemonpod.gateway.intake import read_body
from lemonpod.gateway.json_body import parsed

_MAX_BODY: Final = 256 << 10
"""A few options need no more, and reading it must not hold up others."""


class ControlBody:
    """A source for `intake`."""

    def __init__(self, request: web.Request) -> None:
        self.content_type = request.headers.get("Content-Type", "").encode("utf-8", "surrogateescape")
        self.content_encoding = request.headers.get("Content-Encoding", "").encode("utf-8", "surrogateescape")
        self.content_length = request.content_length or 0
        self.read = request.content.readany


async def object_of(request: web.Request, *, or_nothing: bool = False) -> Mapping[str, Any]:
    """The request's body, one JSON object; with `or_nothing` no body stands for an empty one."""
    data = await read_body(ControlBody(request), request.app[keys.SETTINGS], _MAX_BODY)
    return {} if or_nothing and not data else parsed(data)


def model_name(body: Mapping[str, JsonValue]) -> str | None:
    """The model that the object names, if it does."""
    name = body.get("model_name")
    if name is None:
        name = body.get("model")  # an explicit null names nothing
    if name is not None and not isinstance(name, str):
        raise MalformedRequestError("Invalid JSON in request body: 'model_name' must be a string")
    return name


def required_model(body: Mapping[str, JsonValue]) -> str:
    """As `model_name`, where there must be one."""
    if not (name := model_name(body)):
        raise MalformedRequestError("'model_name' parameter is required")
    return name


def flag(body: Mapping[str, JsonValue], name: str, default: bool = False) -> bool:
    """A member that says yes or no."""
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise MalformedRequestError(f"'{name}' must be true or false")
    return value
