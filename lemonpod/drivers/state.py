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
from typing import Any, Final, Protocol, TypeAlias

ENGINES: Final = "engines"
"""The kind of run file that tells of processes, and begins the names of such files."""

Json: TypeAlias = dict[str, Any]


class Record(Protocol):
    """A dataclass of JSON values: one engine of a run."""

    @property
    def number(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRecord:
    """One engine. `stop` is its stop command, with all tokens resolved; with `stop_names_pid` it is about the
    process alone, so that without one there is nothing to stop."""

    number: int
    model: str
    pid: int
    create_time: float
    port: int
    stop: tuple[str, ...] | None
    stop_names_pid: bool = True


class RunFile:
    """The records of this server run. Its methods block, and may be called from any thread."""

    def __init__(self, folder: Path, kind: str = ENGINES) -> None:
        self.id = secrets.token_hex(8)
        self._folder = folder
        self._path = folder / f"{kind}-{self.id}.json"
        self._records: dict[int, Record] = {}
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

    def add(self, record: Record) -> None:
        """Instead of an earlier one of its number. Raises OSError where it cannot be written, and then holds
        what it held before."""
        with self._lock:
            before = self._records.get(record.number)
            self._records[record.number] = record
            try:
                self._write(self._fd)
            except OSError:
                if before is None:
                    del self._records[record.number]
                else:
                    self._records[record.number] = before
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
            records: list[Any] = list(self._records.values())
            data = json.dumps([asdict(record) for record in records]).encode()
            os.pwrite(fd, data, 0)
            os.truncate(fd, len(data))


class DeadRun:
    """A server run that ended without clearing up, held against other servers that start now."""

    def __init__(self, path: Path, fd: int) -> None:
        self.id = _id_of(path)
        self.records = _read(fd)
        """Empty as well where the file was cut short: engines are found by what marks them."""
        self._path = path
        self._fd = fd

    @property
    def engines(self) -> tuple[EngineRecord, ...]:
        """The records of a run of processes."""
        return _parse(self.records)

    def forget(self) -> None:
        """Nothing of it runs any more."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._fd)


def dead_runs(folder: Path, kind: str = ENGINES) -> list[DeadRun]:
    """Each run that left its file and whose server is gone. Each must be closed."""
    runs = []
    for path in sorted(folder.glob(f"{kind}-*.json")):
        with suppress(OSError):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                runs.append(DeadRun(path, fd))
            except OSError:  # its server lives
                os.close(fd)
    return runs


def living_runs(folder: Path, kind: str) -> dict[str, list[Json]]:
    """The records of each run whose server lives, by its id; a run that `dead_runs` holds passes for one."""
    runs = {}
    for path in folder.glob(f"{kind}-*.json"):
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                runs[_id_of(path)] = _read(fd)
            finally:
                os.close(fd)
    return runs


def _id_of(path: Path) -> str:
    return path.stem.rpartition("-")[2]


def _read(fd: int) -> list[Json]:
    try:
        found = json.loads(os.pread(fd, os.fstat(fd).st_size, 0))
    except ValueError:
        return []
    return [record for record in found if isinstance(record, dict)] if isinstance(found, list) else []


def _parse(records: list[Json]) -> tuple[EngineRecord, ...]:
    try:
        return tuple(
            EngineRecord(**{**record, "stop": tuple(record["stop"]) if record["stop"] else None})
            for record in records
        )
    except (TypeError, KeyError):
        return ()
