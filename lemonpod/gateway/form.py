"""A spooled `multipart/form-data` body as its parts, and a body made of parts. Both block: bodies are files.

Whoever spooled it has checked that it has an end, and not too many parts.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Final

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.multipart import field_of

MAX_TEXT: Final = 1 << 20
"""Of one field that is no file: a prompt is long, but not so long."""

_PIECE: Final = 1 << 20
_LINE: Final = b"\r\n"
_END_OF_HEAD: Final = b"\r\n\r\n"
_BROKEN: Final = "The multipart body is broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One field. Its content is a text, or lies between two places of the file that it was read from."""

    name: str
    file_name: str | None = None
    content_type: str | None = None
    text: str = ""
    span: tuple[int, int] = (0, 0)


def read_form(file: IO[bytes], boundary: bytes) -> list[Part]:
    """The body's fields in their order; those without a file name with their texts."""
    descriptor = file.fileno()
    file.flush()
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        return list(_parts(data, boundary))


def write_form(parts: Iterable[Part], source: IO[bytes], boundary: bytes, target: IO[bytes]) -> int:
    """Write a body and return its length; contents of files are copied from `source`."""
    for part in parts:
        target.write(b"--%b\r\n%b\r\n" % (boundary, _head(part)))
        if part.file_name is None:
            target.write(part.text.encode())
        else:
            _copy(source, part.span, target)
        target.write(_LINE)
    target.write(b"--%b--\r\n" % boundary)
    return target.tell()


def _parts(data: mmap.mmap, boundary: bytes) -> Iterator[Part]:
    delimiter = b"\r\n--" + boundary
    first = delimiter[2:]  # the first one needs no line before it
    at = len(first) if data[: len(first)] == first else _behind(data, delimiter, 0)
    while True:
        line = data.find(_LINE, at)
        if data[at : line if line >= 0 else len(data)].lstrip(b" \t").startswith(b"--"):
            return
        head_end = data.find(_END_OF_HEAD, line)
        if line < 0 or head_end < 0:
            raise MalformedRequestError(_BROKEN)
        behind = _behind(data, delimiter, head_end + 2)  # an empty content's starts with this line end
        head, end = data[line + 2 : head_end], behind - len(delimiter)
        if (part := _part(data, head, head_end + 4, max(head_end + 4, end))) is not None:
            yield part
        at = behind


def _behind(data: mmap.mmap, delimiter: bytes, start: int) -> int:
    found = data.find(delimiter, start)
    if found < 0:
        raise MalformedRequestError(_BROKEN)
    return found + len(delimiter)


def _part(data: mmap.mmap, head: bytes, start: int, end: int) -> Part | None:
    name, file_name, content_type = field_of(head)
    if name is None:
        return None
    if file_name is not None:
        return Part(name=name, file_name=file_name, content_type=content_type, span=(start, end))
    if end - start > MAX_TEXT:
        raise MalformedRequestError(f"The field {name[:80]!r} is too long")
    try:
        return Part(name=name, text=data[start:end].decode())
    except UnicodeDecodeError as error:
        raise MalformedRequestError(f"The field {name[:80]!r} is not UTF-8") from error


def _head(part: Part) -> bytes:
    lines = f'Content-Disposition: form-data; name="{_quoted(part.name)}"'
    if part.file_name is not None:
        lines += f'; filename="{_quoted(part.file_name)}"'
        lines += f"\r\nContent-Type: {part.content_type or 'application/octet-stream'}"
    return f"{lines}\r\n".encode()


def _quoted(text: str) -> str:
    """As browsers write names (WHATWG HTML, multipart/form-data encoding)."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _copy(source: IO[bytes], span: tuple[int, int], target: IO[bytes]) -> None:
    source.seek(span[0])
    left = span[1] - span[0]
    while left > 0 and (piece := source.read(min(left, _PIECE))):
        target.write(piece)
        left -= len(piece)
