"""The body of a control request, as aiohttp hands it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

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
