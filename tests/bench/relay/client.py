"""What every peer is asked: one small chat, one stream, one sound to fetch and one to send."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from tests.bench.relay.engine import CHAT, SPEECH, TRANSCRIPTIONS

MODEL: Final = "bench"
API_KEY: Final = "sk-bench"
_BOUNDARY: Final = "lemonpod-bench"
_MESSAGES: Final = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "Hello! What can you do?"},
]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a peer listens, on the loopback."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pair(self) -> tuple[str, int]:
        return "127.0.0.1", self.port


def chat(**more: Any) -> bytes:
    """The body of a chat."""
    return json.dumps({"model": MODEL, "messages": _MESSAGES, **more}).encode()


def chat_request(**more: Any) -> bytes:
    """A whole request for a chat."""
    body = chat(**more)
    return _head(CHAT, "application/json", len(body)) + body


def speech_request(size: int) -> bytes:
    """A whole request for a sound of so many bytes."""
    body = json.dumps({"model": MODEL, "input": "Hello", "voice": "any", "bytes": size}).encode()
    return _head(SPEECH, "application/json", len(body)) + body


def upload_parts(size: int) -> tuple[bytes, bytes]:
    """The bytes before and after a sound of so many bytes that is to be transcribed."""
    before = (
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="model"\r\n\r\n{MODEL}\r\n'
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
        "Content-Type: audio/wav\r\n\r\n"
    ).encode()
    after = f"\r\n--{_BOUNDARY}--\r\n".encode()
    length = len(before) + size + len(after)
    return _head(TRANSCRIPTIONS, f"multipart/form-data; boundary={_BOUNDARY}", length) + before, after


def _head(path: str, content_type: str, length: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {API_KEY}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
    ).encode()
