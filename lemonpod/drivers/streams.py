"""Readers of what container engines stream: pure, and fed with chunks that end anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_HEADER: Final = 8  # one byte of which stream, three of nothing, four of length
_MAX_LINE: Final = 1 << 20
_MAX_OPEN_LINE: Final = 64 << 10
_DOWNLOADING: Final = "Downloading"
_DOWNLOADED: Final = frozenset({"Verifying Checksum", "Download complete", "Extracting", "Pull complete"})


class Demultiplexer:
    """Makes one text of a log in frames, in which both streams of a container take turns.

    A turn can end within a line. So the lines of each stream are put together first, and the text depends
    on nothing but the frames: one who reads the log again gets the same beginning.
    """

    def __init__(self) -> None:
        self._header = b""
        self._left = 0
        self._open: dict[int, bytes] = {}
        """The line of each stream whose end is still to come."""
        self._stream = 0

    def feed(self, chunk: bytes) -> bytes:
        """The lines that are whole with `chunk`."""
        written = []
        rest = memoryview(chunk)
        while rest:
            if self._left:
                piece, rest = rest[: self._left], rest[self._left :]
                self._left -= len(piece)
                written.append(self._whole_lines(bytes(piece)))
                continue
            missing = _HEADER - len(self._header)
            self._header += rest[:missing]
            rest = rest[missing:]
            if len(self._header) == _HEADER:
                self._stream = self._header[0]
                self._left = int.from_bytes(self._header[4:], "big")
                self._header = b""
        return b"".join(written)

    def end(self) -> bytes:
        """What is left when no more comes: unfinished lines."""
        rest = b"\n".join(filter(None, self._open.values()))
        self._open.clear()
        return rest

    def _whole_lines(self, piece: bytes) -> bytes:
        text = self._open.get(self._stream, b"") + piece
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if not end and len(text) > _MAX_OPEN_LINE:
            end = len(text)
        self._open[self._stream] = text[end:]
        return text[:end]


def json_objects(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a stream of JSON lines, each as soon as it is whole; a line that is none is skipped."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE:
            rest = b""
        yield from filter(None, map(_object, lines))
    yield from filter(None, [_object(rest)])


class PullProgress:
    """What the events of a pull add up to; docker's form, which podman speaks where it is asked to."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}

    def hear(self, event: Mapping[str, Any]) -> bool:
        """Note what an event says; False if it says nothing of bytes."""
        layer, status, said = event.get("id"), event.get("status"), event.get("progressDetail")
        if not (isinstance(layer, str) and isinstance(status, str) and isinstance(said, dict)):
            return False
        current, size = said.get("current"), said.get("total")
        if status == _DOWNLOADING and isinstance(current, int):
            self._layers[layer] = current, size if isinstance(size, int) else 0
        elif status in _DOWNLOADED and layer in self._layers:
            done, total = self._layers[layer]
            self._layers[layer] = max(done, total), total
        else:
            return False
        return True

    @property
    def done(self) -> int:
        return sum(done for done, _ in self._layers.values())

    @property
    def total(self) -> int | None:
        """Of the layers that have begun: no engine knows of the others. None before the first."""
        return sum(total for _, total in self._layers.values()) or None


def complaint(event: Mapping[str, Any]) -> str | None:
    """Why a pull has failed, where an event says so."""
    detail = event.get("errorDetail")
    said = (detail.get("message") if isinstance(detail, dict) else None) or event.get("error")
    return None if said is None else str(said)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
