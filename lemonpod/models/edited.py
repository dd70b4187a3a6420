"""A shared JSON file, changed under a lock and replaced in one step: nobody loses what others wrote."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import ConfigError, InvalidModelError
from lemonpod.models.json_file import as_data, parse_object, read_bytes
from lemonpod.models.replaced import replaced

_LOCK_TIMEOUT: Final = 10.0
_LOCK_POLL: Final = 0.01


@contextlib.contextmanager
def edited(file: Path) -> Iterator[tuple[Path, dict[str, JsonValue]]]:
    """The file's object, to be changed in the block and then put in the file's place."""
    # A link stays a link: it is the file behind it that is locked and replaced.
    path = Path(os.path.realpath(file))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            document = _existing(path)
            yield path, document
            data = _content(path, document)
            with replaced(path) as copy:
                _copy_ownership(path, copy.fileno())
                copy.write(data)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file beside `path`: the file itself is replaced, so a lock on it would not last."""
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + _LOCK_TIMEOUT
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ConfigError(
                        f"{path}: another program has held its lock for {_LOCK_TIMEOUT:.0f} s"
                    ) from None
                time.sleep(_LOCK_POLL)
        yield
    finally:
        os.close(descriptor)


def _existing(path: Path) -> dict[str, JsonValue]:
    try:
        data = read_bytes(path)
        return {} if data is None else parse_object(data)
    except ConfigError as error:
        raise ConfigError(
            f"{path}: {error.message}", hint="nothing was changed; repair the file or move it away first"
        ) from error


def _content(path: Path, document: Mapping[str, JsonValue]) -> bytes:
    """The file's new content; what nobody could read again would cost all that is in it."""
    try:
        return as_data(document)
    except ConfigError as error:
        raise InvalidModelError(f"{path}: {error.message}", hint="nothing was changed") from error


def _copy_ownership(path: Path, descriptor: int) -> None:
    try:
        old = path.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, 0o644)
        return
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):  # only root can give a file away
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
