"""Where the frames of a WebSocket begin, and how long they are (RFC 6455, 5.2); never what is in them."""

from __future__ import annotations

import os
from typing import Final

CLOSE: Final = 0x8
_FINAL: Final = 0x80
_MASKED: Final = 0x80
_MASK_SIZE: Final = 4
_MAX_REASON: Final = 123
"""A control frame carries 125 bytes, two of them the code."""


class Frames:
    """Follows what is sent in one direction, split anywhere."""

    __slots__ = ("_begun", "_left", "_max", "closed", "too_long")

    def __init__(self, max_frame: int) -> None:
        self.closed = False
        """A close frame has passed."""
        self.too_long = False
        """A frame came that is longer than allowed: nothing passes from it on."""
        self._max = max_frame
        self._left = 0
        """Bytes of the current frame that are still to come."""
        self._begun = b""
        """Of a frame's head that is not whole, and so has not passed."""

    @property
    def between(self) -> bool:
        """Whether another frame may begin behind what has passed."""
        return not self._left

    def feed(self, data: bytes) -> bytes:
        """What of it can pass."""
        if self.too_long:
            return b""
        if self._begun:
            data, self._begun = self._begun + data, b""
        at, end = self._left, len(data)
        while at < end:
            size = _size_of_head(data, at)
            if at + size > end:
                self._left, self._begun = 0, data[at:]
                return data[:at]
            payload = _size_of_payload(data, at)
            if payload > self._max:
                self._left, self.too_long = 0, True
                return data[:at]
            if data[at] & 0xF == CLOSE:
                self.closed = True
            at += size + payload
        self._left = at - end
        return data


def close_frame(code: int, reason: str, *, masked: bool) -> bytes:
    """The frame that ends a WebSocket; a client's is masked."""
    payload = code.to_bytes(2, "big") + _cut(reason)
    head = bytes((_FINAL | CLOSE, (_MASKED if masked else 0) | len(payload)))
    if not masked:
        return head + payload
    mask = os.urandom(_MASK_SIZE)
    return head + mask + bytes(byte ^ mask[at % _MASK_SIZE] for at, byte in enumerate(payload))


def _cut(reason: str) -> bytes:
    return reason.encode("utf-8", "replace")[:_MAX_REASON].decode("utf-8", "ignore").encode()


def _size_of_head(data: bytes, at: int) -> int:
    """As far as two bytes tell; they are wanted first."""
    if at + 2 > len(data):
        return 2
    second = data[at + 1]
    length = second & 0x7F
    extended = 2 if length == 126 else 8 if length == 127 else 0
    return 2 + extended + (_MASK_SIZE if second & _MASKED else 0)


def _size_of_payload(data: bytes, at: int) -> int:
    length = data[at + 1] & 0x7F
    if length < 126:
        return length
    return int.from_bytes(data[at + 2 : at + (4 if length == 126 else 10)], "big")
