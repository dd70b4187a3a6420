"""HTTP by hand, so that a test sees every byte that the gateway sends, and sends what no library would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    complete: bool
    """Whether the body's framing came to its end."""

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def value(self, name: str) -> str | None:
        return next(iter(self.values(name)), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]


class Client:
    """One connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @staticmethod
    async def connect(port: int) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> Reply:
        """The status and headers, with the body still to come."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = tuple(
            (name, value.strip()) for name, _, value in (line.partition(":") for line in lines[1:-2])
        )
        return Reply(status, headers, b"", complete=False)

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        size = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def reply(self, *, method: str = "GET") -> Reply:
        """One whole answer, or as much of it as came."""
        head = await self.head()
        if method == "HEAD" or head.status in {204, 304}:
            return Reply(head.status, head.headers, b"", complete=True)
        body, complete = await self._body(head)
        return Reply(head.status, head.headers, body, complete)

    async def _body(self, head: Reply) -> tuple[bytes, bool]:
        pieces: list[bytes] = []
        try:
            if head.value("Transfer-Encoding") == "chunked":
                while piece := await self.chunk():
                    pieces.append(piece)
                return b"".join(pieces), True
            if length := head.value("Content-Length"):
                return await self.reader.readexactly(int(length)), True
            while piece := await self.reader.read(1 << 16):
                pieces.append(piece)
            return b"".join(pieces), True
        except asyncio.IncompleteReadError as error:
            return b"".join(pieces) + error.partial, False
        except (ConnectionError, ValueError):  # the line with the next chunk's size did not come
            return b"".join(pieces), False

    def abort(self) -> None:
        self.writer.transport.abort()


def message(
    method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes | str = b""
) -> bytes:
    """A request. The body's length is added unless the headers say how it is framed."""
    data = body.encode() if isinstance(body, str) else body
    lines = {"Host": "gateway.test"} | dict(headers or {})
    if data and not {"Content-Length", "Transfer-Encoding"} & lines.keys():
        lines["Content-Length"] = str(len(data))
    head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
    return head.encode("latin-1") + b"\r\n" + data


def ok(body: bytes, content_type: str = "application/json", *extra: str) -> bytes:
    """An engine's answer with a length."""
    lines = [f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *extra]
    return b"HTTP/1.1 200 OK\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(content_type: str, *chunks: bytes, end: bool = True) -> bytes:
    """An engine's answer in chunks, or the beginning of one."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head.encode() + b"".join(as_chunk(chunk) for chunk in chunks) + (b"0\r\n\r\n" if end else b"")


def as_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
