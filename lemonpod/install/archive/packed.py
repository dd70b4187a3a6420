"""gzip, bzip2 and xz, as streams that take little memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from typing import IO, Final, cast

_BLOCK: Final = 1 << 16
_XZ_MEMORY: Final = 512 << 20
"""An archive says how much memory it takes; `xz -9` takes 65 MiB."""


def ungzipped(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(fileobj=file))


def unbzipped(file: IO[bytes]) -> IO[bytes]:
    return bz2.BZ2File(file)


def unxzed(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], io.BufferedReader(_Xz(file), _BLOCK))


class _Xz(io.RawIOBase):
    """As lzma.LZMAFile, which sets no limit to memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = _decoder()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while True:
            data = b""
            if self._decoder.eof:
                # Streams may follow each other, with zeros between them.
                if not (data := self._decoder.unused_data.lstrip(b"\0") or self._more().lstrip(b"\0")):
                    return 0
                self._decoder = _decoder()
            elif self._decoder.needs_input and not (data := self._more()):
                raise EOFError("it ends before its end")
            if out := self._decoder.decompress(data, len(buffer)):
                buffer[: len(out)] = out
                return len(out)

    def _more(self) -> bytes:
        return self._file.read(_BLOCK)


def _decoder() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
