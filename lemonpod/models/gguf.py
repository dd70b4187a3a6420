"""What a GGUF file says of itself. A claim of whoever made the file: shown, never relied on.

A reader of our own, for the format's library maps the file, which a file that is cut meanwhile turns into the
end of the process, makes arrays of every word of the vocabulary, and brings numpy with it.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Final

MAGIC: Final = b"GGUF"

_STEP: Final = 1 << 20
_LIMIT: Final = 64 << 20
"""Of a header: vocabularies of half a million words take some 20 MB."""
_MAX_PAIRS: Final = 4096
_MAX_TEXT: Final = 1 << 20
_VERSIONS: Final = (2, 3)
_COUNT: Final = struct.Struct("<Q")
_STRING, _ARRAY = 8, 9
# By type number; little-endian, as all files are that engines here can load.
_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_MAX_CONTEXT: Final = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What was found; None for what the file does not say."""

    architecture: str | None = None
    type: str | None = None
    """`model`, `mmproj`, `adapter` …"""
    context_length: int | None = None
    chat_template: str | None = None


class _Unreadable(Exception):
    pass


def read_header(path: Path) -> Header | None:
    """The file's header; None for a file that is no GGUF or makes no sense. Blocks; raises OSError.

    While the file stays the same it is read once.
    """
    status = os.stat(path)
    return _read(path, status.st_size, status.st_mtime_ns)


def has_magic(path: Path) -> bool:
    """Whether the file begins as a GGUF does. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@lru_cache(maxsize=256)
def _read(path: Path, size: int, mtime_ns: int) -> Header | None:
    with path.open("rb", buffering=0) as file:
        try:
            return _header(_Bytes(file))
        except (_Unreadable, struct.error):
            return None


class _Bytes:
    """A file's beginning, read as far as it is needed."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._data = bytearray()
        self._at = 0

    def take(self, size: int) -> bytes:
        self.skip(size)
        return bytes(self._data[self._at - size : self._at])

    def skip(self, size: int) -> None:
        self._at = self._reach(self._at + size)

    def skip_texts(self, count: int) -> None:
        """As often `skip(count())`, in a quarter of the time: vocabularies are long."""
        at = self._at
        for _ in range(count):
            end = at + _COUNT.size
            if end > len(self._data):
                self._reach(end)
            at = end + _COUNT.unpack_from(self._data, at)[0]
        self._at = self._reach(at)

    def _reach(self, end: int) -> int:
        if end > _LIMIT:
            raise _Unreadable
        while len(self._data) < end:
            if not (more := self._file.read(_STEP)):
                raise _Unreadable
            self._data += more
        return end

    def number(self, form: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def count(self) -> int:
        return int(self.number(_COUNT.format))


def _header(data: _Bytes) -> Header | None:
    if data.take(len(MAGIC)) != MAGIC or data.number("<I") not in _VERSIONS:
        return None
    data.skip(8)  # how many tensors
    pairs = data.count()
    found: dict[str, int | float | str | None] = {}
    for _ in range(min(pairs, _MAX_PAIRS)):
        key = _text(data) or ""
        value = _value(data)
        if key.startswith("general.") or key == "tokenizer.chat_template" or key.endswith(".context_length"):
            found[key] = value
    architecture = _string(found.get("general.architecture"))
    return Header(
        architecture=architecture,
        type=_string(found.get("general.type")),
        context_length=_context(found.get(f"{architecture}.context_length")),
        chat_template=_string(found.get("tokenizer.chat_template")),
    )


def _value(data: _Bytes) -> int | float | str | None:
    """A value, of which arrays and overlong texts are only passed."""
    kind = data.number("<I")
    if kind == _STRING:
        return _text(data)
    if kind == _ARRAY:
        _pass_array(data)
        return None
    return data.number(_form(kind))


def _pass_array(data: _Bytes) -> None:
    kind, count = data.number("<I"), data.count()
    if kind == _STRING:
        data.skip_texts(count)
    else:
        data.skip(count * struct.calcsize(_form(kind)))


def _form(kind: float) -> str:
    if kind not in _SCALARS:
        raise _Unreadable
    return _SCALARS[int(kind)]


def _text(data: _Bytes) -> str | None:
    size = data.count()
    if size > _MAX_TEXT:
        data.skip(size)
        return None
    return data.take(size).decode("utf-8", "replace")


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _context(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_CONTEXT:
        return value
    return None
