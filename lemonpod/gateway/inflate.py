"""Undoes a request body's compression, piece by piece."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Final

from lemonpod.errors import MalformedRequestError

MAX_PIECE: Final = 256 << 10
"""However much a piece would grow, it is handed on in parts of this size at most."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_CUT_SHORT: Final = "The request body cannot be inflated: it is cut short"


class Inflater:
    """Fed a gzip or deflate body as it arrives; raises MalformedRequestError where it is none."""

    def __init__(self, coding: str) -> None:
        if coding not in ("gzip", "deflate"):
            raise MalformedRequestError("The request body's Content-Encoding must be gzip, deflate or none")
        self._coding = coding
        self._stream: Any = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes inflate to."""
        full = False
        while data or full:
            if self._stream is None:
                self._stream = zlib.decompressobj(self._window(data))
            try:
                piece = self._stream.decompress(data, MAX_PIECE)
            except zlib.error as error:
                raise MalformedRequestError(
                    f"The request body cannot be inflated: it is not {self._coding}"
                ) from error
            data, full = self._stream.unconsumed_tail, len(piece) == MAX_PIECE
            if self._stream.eof:
                data, full = self._stream.unused_data, False
                if data and self._coding == "gzip":
                    self._stream = None  # gzip files may follow one another
                elif data:
                    raise MalformedRequestError("The request body goes on behind its deflated data")
            if piece:
                yield piece

    def close(self) -> None:
        """Say that the body has ended."""
        if self._stream is not None and not self._stream.eof:
            raise MalformedRequestError(_CUT_SHORT)

    def _window(self, data: bytes) -> int:
        if self._coding == "gzip":
            return _GZIP
        # Some clients leave out the two bytes of zlib's head, the first of which tells the method: 8.
        return zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS
