"""Finds one text field in a multipart body while its bytes pass by unchanged (RFC 2046, RFC 7578)."""

from __future__ import annotations

from email.message import Message
from enum import Enum, auto
from typing import Final

from lemonpod.errors import MalformedRequestError

MAX_PARTS: Final = 1000
MAX_PART_HEADERS: Final = 16 << 10
MAX_VALUE: Final = 4 << 10
"""Far more than any model's name."""


class _State(Enum):
    BODY = auto()
    """Between a part's headers and the next boundary, or before the first."""
    BOUNDARY = auto()
    """Right behind a boundary: another part, or the end."""
    HEADERS = auto()
    END = auto()


def boundary_of(content_type: str) -> bytes:
    """The boundary that a `multipart/form-data` header names."""
    header = Message()
    header["content-type"] = content_type
    try:
        boundary = header.get_boundary()
    except ValueError:  # of a charset that nobody can read
        boundary = None
    if header.get_content_type() != "multipart/form-data" or not boundary:
        raise MalformedRequestError("The request must be multipart/form-data with a boundary")
    if len(boundary) > 70 or not boundary.isascii():
        raise MalformedRequestError("The multipart boundary must be at most 70 ASCII characters")
    return boundary.encode()


class FieldFinder:
    """Fed the body piece by piece; holds no more of it than one part's headers or the wanted value."""

    def __init__(self, boundary: bytes, name: str) -> None:
        self._delimiter = b"\r\n--" + boundary
        self._name = name
        self._buffer = b"\r\n"  # the first delimiter has no line before it
        self._state = _State.BODY
        self._parts = 0
        self._wanted = False
        self._value: str | None = None
        self.names: set[str] = set()
        """The fields that have come by."""

    @property
    def value(self) -> str | None:
        """The field's text; None where the body has no such field."""
        return self._value

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while self._step():
            pass

    def close(self) -> None:
        """Say that the body has ended. Raises MalformedRequestError where it ended in the middle."""
        if self._state is not _State.END:
            raise MalformedRequestError("The multipart body has no closing boundary")

    def _step(self) -> bool:
        """Consume what the state needs; False when more data is needed."""
        match self._state:
            case _State.BODY:
                return self._body()
            case _State.BOUNDARY:
                return self._boundary()
            case _State.HEADERS:
                return self._headers()
            case _State.END:
                self._buffer = b""  # an epilogue means nothing
                return False

    def _body(self) -> bool:
        found = self._buffer.find(self._delimiter)
        if self._wanted and (found if found >= 0 else len(self._buffer)) > MAX_VALUE + len(self._delimiter):
            raise MalformedRequestError(f"The field {self._name!r} is too long")
        if found < 0:
            if not self._wanted:
                self._buffer = self._buffer[-len(self._delimiter) :]
            return False
        if self._wanted:
            self._keep(self._buffer[:found])
        self._buffer = self._buffer[found + len(self._delimiter) :]
        self._state = _State.BOUNDARY
        return True

    def _boundary(self) -> bool:
        line = self._buffer.lstrip(b" \t")
        if len(line) < 2 and len(self._buffer) < MAX_PART_HEADERS:
            return False
        if line.startswith(b"--"):
            self._state = _State.END
            return True
        if not line.startswith(b"\r\n"):
            raise MalformedRequestError("The multipart body has a broken boundary line")
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise MalformedRequestError(f"The multipart body has more than {MAX_PARTS} parts")
        self._buffer = line  # with its line end, so that a part without headers looks no different
        self._state = _State.HEADERS
        return True

    def _headers(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if (end if end >= 0 else len(self._buffer)) > MAX_PART_HEADERS:
            raise MalformedRequestError("The headers of a multipart part are too long")
        if end < 0:
            return False
        name, _, _ = field_of(self._buffer[:end])
        if name is not None:
            self.names.add(name)
        self._wanted = name == self._name
        self._buffer = self._buffer[end + 2 :]  # an empty value's boundary starts with this line end
        self._state = _State.BODY
        return True

    def _keep(self, raw: bytes) -> None:
        if self._value is not None:
            raise MalformedRequestError(f"The field {self._name!r} comes twice")
        try:
            self._value = raw.removeprefix(b"\r\n").decode()
        except UnicodeDecodeError as error:
            raise MalformedRequestError(f"The field {self._name!r} is not UTF-8") from error


def field_of(head: bytes) -> tuple[str | None, str | None, str | None]:
    """The name, the file name and the media type that a part's header lines say."""
    name = file_name = content_type = None
    for line in head.decode("utf-8", "replace").split("\r\n"):
        key, _, text = line.partition(":")
        match key.strip().lower():
            case "content-disposition" if name is None:
                header = Message()
                header["content-disposition"] = text.strip()
                said = header.get_param("name", header="content-disposition")
                name = said if isinstance(said, str) else None
                file_name = _file_name(header)
            case "content-type":
                content_type = text.strip()
    return name, file_name, content_type


def _file_name(header: Message) -> str | None:
    """It may name a charset, of which Python has some that give no text (RFC 7578 allows none at all)."""
    try:
        name = header.get_filename()
        (name or "").encode()
    except ValueError as error:
        raise MalformedRequestError("A file name in the multipart body cannot be read") from error
    return name
