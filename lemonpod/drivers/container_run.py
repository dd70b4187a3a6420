"""What containers this server run has, on record: so that the next one knows where to look after a crash."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.drivers import labels
from lemonpod.drivers.labels import Owner
from lemonpod.drivers.runtime import ContainerRuntime
from lemonpod.drivers.runtimes import Link, Place
from lemonpod.drivers.state import Json, RunFile, living_runs
from lemonpod.errors import EngineError, RuntimeUnavailableError, SpawnError
from lemonpod.launch.argv.connection import Connection
from lemonpod.launch.container import Runtime

CONTAINERS: Final = "containers"
"""The kind of run file."""
_INSTANCE: Final = "instance"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """One engine: where to look for its container, and which it is once that is known."""

    number: int
    runtime: str
    program: str
    url: str | None
    context: str | None
    container: str | None


@dataclass(frozen=True, slots=True)
class Lost:
    """A container that was to be removed when its runtime did not answer; without an id its labels tell."""

    link: Link
    container: str | None


class ContainerRun:
    """The containers of this server run. What touches files blocks, and may be called from any thread."""

    def __init__(self, state_dir: Path) -> None:
        self.lost: dict[int, Lost] = {}
        """By the number of the engine; for the event loop."""
        self._folder = state_dir
        self._file = RunFile(state_dir, CONTAINERS)

    @property
    def id(self) -> str:
        return self._file.id

    def record(self, number: int, place: Place, container: str | None) -> Owner:
        """Note an engine before its container is made, and again when its id is known; raises SpawnError."""
        record = ContainerRecord(
            number=number,
            runtime=place.runtime.value,
            program=place.program,
            url=place.connection.url,
            context=place.connection.context,
            container=container,
        )
        try:
            self._file.open()
            self._file.add(record)
            instance = instance_id(self._folder, make=True)
        except OSError as error:
            raise SpawnError(
                f"cannot start a container: no record of it can be written: {error}",
                hint="the cache folder must be writable",
            ) from error
        return Owner(instance=instance, run=self.id, number=number)

    def forget(self, number: int) -> None:
        """The engine's container is gone."""
        with suppress(OSError):  # a full disk; a record of what has ended harms nobody
            self._file.remove(number)

    def holds(self, container: str, marks: Mapping[str, str], *, dead: Collection[str]) -> bool:
        """Whether a server that runs, this one too, has that container; `dead` are runs known as ended."""
        return is_held(container, marks, living_runs(self._folder, CONTAINERS), dead)

    async def sweep(self) -> None:
        """Remove what is lost, where its runtime answers again."""
        for number, lost in list(self.lost.items()):
            try:
                await lost.link.call(lambda runtime, n=number, one=lost: self._remove(runtime, n, one))  # type: ignore[misc]
            except RuntimeUnavailableError:
                continue
            except EngineError as error:
                log.warning("a container that was lost cannot be removed: %s", error)
                continue
            self.lost.pop(number, None)

    def close(self) -> None:
        """The record stays where something is lost."""
        self._file.close()

    def _remove(self, runtime: ContainerRuntime, number: int, lost: Lost) -> None:
        marks = {labels.RUN: self.id, labels.ENGINE: str(number)}
        found = [lost.container] if lost.container else [one.id for one in runtime.containers(marks)]
        for container in found:
            runtime.remove(container)
        self.forget(number)


def is_held(
    container: str, marks: Mapping[str, str], living: Mapping[str, list[Json]], dead: Collection[str]
) -> bool:
    """Whether one of the living runs made the container, or has taken it over."""
    running = {run: records for run, records in living.items() if run not in dead}
    taken = {record.get("container") for records in running.values() for record in records}
    return marks.get(labels.RUN) in running or container in taken


def place_of(record: Json) -> Place | None:
    """Where the container of a record was; None for a record of another shape."""
    try:
        return Place(
            runtime=Runtime(record["runtime"]),
            program=record["program"],
            connection=Connection(url=record["url"], context=record["context"]),
        )
    except (KeyError, ValueError):
        return None


def instance_id(folder: Path, *, make: bool = False) -> str:
    """The id of a state folder for ever; empty where it has none and none is to be made. Raises OSError."""
    path = folder / _INSTANCE
    with suppress(FileNotFoundError):
        if found := path.read_text().strip():
            return found
    if not make:
        return ""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    early = path.with_name(f"{_INSTANCE}.{secrets.token_hex(4)}")
    early.write_text(secrets.token_hex(8))
    try:
        os.link(early, path)  # the first of two servers that start together wins
    except FileExistsError:
        if not path.read_text().strip():  # cut short by a full disk
            early.replace(path)
    finally:
        early.unlink(missing_ok=True)
    return path.read_text().strip()
