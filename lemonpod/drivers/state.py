"""What a server has running, on disk, so that the next one can clear it away after a crash.

One file a server run, locked for as long as the server lives: a file that can be locked is a dead run's.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

_PREFIX: Final = "engines-"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRecord:
    """One engine. `stop` is its stop command, with all tokens resolved."""

    number: int
    model: str
    pid: int
    create_time: float
    port: int
    stop: tuple[str, ...] | None


class RunFile:
    """The records of this server run. Its methods block, and may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.id = secrets.token_hex(8)
        self._folder = folder
        self._path = folder / f"{_PREFIX}{self.id}.json"
        self._records: dict[int, EngineRecord] = {}
        self._fd: int | None = None
        self._lock = threading.Lock()

    def open(self) -> None:
        """Make and lock the file, unless it is there. Raises OSError."""
        with self._lock:
            if self._fd is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                # Locked before it has its name: nobody can take it for a dead run's.
                early = self._path.with_suffix(".new")
                fd = os.open(early, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                fcntl.flock(fd, fcntl.LOCK_EX)
                early.rename(self._path)
                self._fd = fd
                self._write(fd)

    def add(self, record: EngineRecord) -> None:
        """Raises OSError where it cannot be written, and then holds no such record."""
        with self._lock:
            self._records[record.number] = record
            try:
                self._write(self._fd)
            except OSError:
                del self._records[record.number]
                raise

    def remove(self, number: int) -> None:
        with self._lock:
            if self._records.pop(number, None):
                self._write(self._fd)

    def close(self) -> None:
        """Unlock, and remove the file unless an engine could not be ended."""
        with self._lock:
            if self._fd is not None:
                if not self._records:
                    self._path.unlink(missing_ok=True)
                os.close(self._fd)
                self._fd = None

    def _write(self, fd: int | None) -> None:
        """In place, since a new file would be an unlocked one."""
        if fd is not None:
            data = json.dumps([asdict(record) for record in self._records.values()]).encode()
            os.pwrite(fd, data, 0)
            os.truncate(fd, len(data))


class DeadRun:
    """A server run that ended without clearing up, held against other servers that start now."""

    def __init__(self, path: Path, fd: int) -> None:
        self.id = path.stem.removeprefix(_PREFIX)
        self.engines = _parse(os.pread(fd, os.fstat(fd).st_size, 0))
        """Empty as well where the file was cut short: the marker finds the processes still."""
        self._path = path
        self._fd = fd

    def forget(self) -> None:
        """Nothing of it runs any more."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._fd)


def dead_runs(folder: Path) -> list[DeadRun]:
    """Each run that left its file and whose server is gone. Each must be closed."""
    runs = []
    for path in sorted(folder.glob(f"{_PREFIX}*.json")):
        with suppress(OSError):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                runs.append(DeadRun(path, fd))
            except OSError:  # its server lives
                os.close(fd)
    return runs


def _parse(data: bytes) -> tuple[EngineRecord, ...]:
    try:
        records: list[dict[str, Any]] = json.loads(data)
        return tuple(
            EngineRecord(**{**record, "stop": tuple(record["stop"]) if record["stop"] else None})
            for record in records
        )
    except (ValueError, TypeError, KeyError):
        return ()
