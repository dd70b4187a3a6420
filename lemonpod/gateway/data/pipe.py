"""A body on its way from a client to a task that reads it, with a bound on what waits in between."""

from __future__ import annotations

import asyncio
from typing import Final

from lemonpod.gateway.data.client import ClientConnection
from lemonpod.gateway.data.request import Request

_MAX_WAITING: Final = 512 << 10


class BodyPipe:
    """A source for `intake`."""

    def __init__(self, client: ClientConnection, request: Request) -> None:
        self.content_type = request.known.get(b"content-type", b"")
        self.content_encoding = request.known.get(b"content-encoding", b"")
        self.content_length = request.content_length
        self._client = client
        self._request = request
        self._waiting = 0
        self._news: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """More has come, or the end."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
        if sum(map(len, self._request.pieces)) > _MAX_WAITING:
            self._client.pause_reading()  # a loop reads many times before it comes to the task

    async def read(self) -> bytes:
        while not self._request.pieces and not self._request.ended:
            self._client.resume_reading()
            self._news = asyncio.get_running_loop().create_future()
            try:
                await self._news
            finally:
                self._news = None
        return self._request.take()
