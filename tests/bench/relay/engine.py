"""A stand-in engine that costs little and keeps time: `python -m tests.bench.relay.engine --port PORT`.

What it is to answer stands in the request: `max_tokens` events at `events_per_second`, a sound of `bytes`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any, Final, cast

import httptools
import uvloop

MODULE: Final = "tests.bench.relay.engine"
MODEL: Final = "stand-in-weights"
"""The engine's own name for what it runs, in every answer: a gateway has something to rewrite."""

CHAT: Final = "/v1/chat/completions"
SPEECH: Final = "/v1/audio/speech"
TRANSCRIPTIONS: Final = "/v1/audio/transcriptions"

_BACKLOG: Final = 2048
_PIECE: Final = b"\0" * (256 << 10)
_COMMON: Final = {"id": "chatcmpl-0", "created": 1700000000, "model": MODEL}
_USAGE: Final = {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}


def _answer(document: Any, status: str = "200 OK") -> bytes:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _event(choices: list[Any], **more: Any) -> bytes:
    text = json.dumps({**_COMMON, "object": "chat.completion.chunk", "choices": choices, **more})
    return _chunk(f"data: {text}\n\n")


def _chunk(text: str) -> bytes:
    data = text.encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


_MESSAGE: Final = {"role": "assistant", "content": "Hello! How can I help you today?"}
_REPLY: Final = _answer(
    {
        **_COMMON,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "stop"}],
        "usage": _USAGE,
    }
)
_FIXED: Final = {
    "/health": _answer({"status": "ok"}),
    "/v1/models": _answer({"object": "list", "data": [{"id": MODEL, "object": "model"}]}),
    CHAT: _REPLY,
    "/v1/embeddings": _answer(
        {
            "object": "list",
            "model": MODEL,
            "data": [{"object": "embedding", "index": 0, "embedding": [0.25] * 16}],
            "usage": {"prompt_tokens": 9, "total_tokens": 9},
        }
    ),
}
_NOT_FOUND: Final = _answer({"error": {"message": "no such path"}}, "404 Not Found")
_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_TOKEN: Final = _event([{"index": 0, "delta": {"content": " token"}, "finish_reason": None}])
_LAST: Final = (
    _event([{"index": 0, "delta": {}, "finish_reason": "stop"}], usage=_USAGE)
    + _chunk("data: [DONE]\n\n")
    + b"0\r\n\r\n"
)


class Connection(asyncio.Protocol):
    """One client; httptools parses, and calls the `on_` methods."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._path = ""
        self._body: list[bytes] = []
        self._size = 0
        self._left = 0  # of a sound
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def connection_lost(self, error: Exception | None) -> None:
        self._left = 0
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url.decode()
        self._body = []
        self._size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"expect":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._path != TRANSCRIPTIONS:  # those are only counted
            self._body.append(data)

    def on_message_complete(self) -> None:
        body = b"".join(self._body)
        if self._path == TRANSCRIPTIONS:
            self._transport.write(_answer({"text": f"{self._size} bytes"}))
        elif self._path == SPEECH:
            self._speak(json.loads(body)["bytes"])
        elif self._path == CHAT and b'"stream"' in body and (asked := json.loads(body))["stream"]:
            self._transport.write(_STREAM_HEAD)
            self._next_event(self._loop.time(), 1 / asked["events_per_second"], asked["max_tokens"])
        else:
            self._transport.write(_FIXED.get(self._path, _NOT_FOUND))

    def _next_event(self, due: float, interval: float, left: int) -> None:
        """Write one token at `due`, by the clock and not by when the last one went out."""
        if left == 0:
            self._transport.write(_LAST)
            return
        self._transport.write(_TOKEN)
        due += interval
        self._timer = self._loop.call_at(due, self._next_event, due, interval, left - 1)

    def _speak(self, size: int) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: audio/wav\r\nContent-Length: {size}\r\n\r\n"
        self._transport.write(head.encode())
        self._left = size
        self._go_on()

    def _go_on(self) -> None:
        while self._left and not self._paused:
            piece = _PIECE[: self._left]
            self._left -= len(piece)
            self._transport.write(piece)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._go_on()


async def serve(port: int) -> None:
    """Answer on the loopback port until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", port, backlog=_BACKLOG)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
