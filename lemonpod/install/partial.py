"""A download that is not complete: its bytes, and what is known of the file that they begin."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from lemonpod.errors import ConfigError, InstallError
from lemonpod.models.json_file import parse_object, read_bytes

PREFIX: Final = ".download-"
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the server said of the file: its length, and a name of exactly this content for `If-Range`."""

    total: int | None = None
    validator: str | None = None


class Partial:
    """The file `path`, grown by appending. A later run finds it and goes on with it.

    Raises InstallError where something else has its name, which is not ours to write to.
    """

    def __init__(self, folder: Path, source: str) -> None:
        key = hashlib.sha256(source.encode()).hexdigest()[:12]
        self.path = folder / f"{PREFIX}{key}"
        self._notes = folder / f"{PREFIX}{key}.json"
        self.size = _size(self.path)
        self.known = _read(self._notes) if _size(self._notes) else Known()
        self.joined = self.size > 0
        """Whether its bytes came by several answers."""

    @property
    def complete(self) -> bool:
        return self.known.total is not None and self.size == self.known.total

    def begin(self, known: Known) -> None:
        """Forget what was there; what comes next is of the file that `known` tells of."""
        self.discard()
        self.learn(known)

    def learn(self, known: Known) -> None:
        """Note what is known of the whole file."""
        self._notes.write_text(json.dumps(asdict(known)))
        self.known = known

    @contextmanager
    def appending(self) -> Iterator[_Tail]:
        """A file-like to append with."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            yield _Tail(self, descriptor)
        finally:
            os.close(descriptor)

    def discard(self) -> None:
        """Remove it and what is known of it."""
        for path in (self.path, self._notes):
            with suppress(FileNotFoundError):
                path.unlink()
        self.known, self.size, self.joined = Known(), 0, False

    def sha256(self) -> str:
        """The digest of its bytes, as 64 hex digits."""
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest()


class _Tail:
    def __init__(self, partial: Partial, descriptor: int) -> None:
        self._partial = partial
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        while data:
            written = os.write(self._descriptor, data)
            self._partial.size += written
            data = data[written:]


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0
    if not stat.S_ISREG(status.st_mode):
        raise InstallError(f"{path} is no download, though it is named as one", hint="remove it")
    return status.st_size


def _read(path: Path) -> Known:
    """Notes that are missing or damaged know nothing."""
    try:
        document = parse_object(read_bytes(path) or b"{}")
    except ConfigError:
        return Known()
    total, validator = document.get("total"), document.get("validator")
    return Known(
        total=total if isinstance(total, int) and not isinstance(total, bool) else None,
        validator=validator if isinstance(validator, str) and validator.isprintable() else None,
    )
