"""The body of a control request, as aiohttp hands it out."""

from __future__ import annotations

from aiohttp import web


class ControlBody:
    """A source for `intake`."""

    def __init__(self, request: web.Request) -> None:
        self.content_type = request.headers.get("Content-Type", "").encode("utf-8", "surrogateescape")
        self.content_encoding = request.headers.get("Content-Encoding", "").encode("utf-8", "surrogateescape")
        self.content_length = request.content_length or 0
        self.read = request.content.readany
