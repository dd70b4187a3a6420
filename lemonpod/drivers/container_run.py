"""What containers this server run has, on record: so that the next one knows where to look after a crash."""

from __future__ import annotations

import asyncio
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
from lemonpod.engine.tasks import cancel
from lemonpod.errors import EngineError, RuntimeUnavailableError, SpawnError
from lemonpod.launch.argv.connection import Connection
from lemonpod.launch.container import Runtime

CONTAINERS: Final = "containers"
"""The kind of run file."""
FIRST_SWEEP: Final = 0.5
LAST_SWEEP: Final = 30.0
"""From one try to remove what is lost to the next: half a second, then longer."""
LAST_SWEEP_TIMEOUT: Final = 5.0
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
class _Lost:
    """A container that was to be removed when its runtime did not answer; without an id its labels tell."""

    link: Link
    container: str | None


class ContainerRun:
    """The containers of this server run. What touches files blocks, and may be called from any thread."""

    def __init__(self, state_dir: Path) -> None:
        self._lost: dict[int, _Lost] = {}
        """By the number of the engine; for the event loop."""
        self._sweeping: asyncio.Task[None] | None = None
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

    def lose(self, number: int, link: Link, container: str | None) -> None:
        """Have it removed as soon as its runtime answers."""
        self._lost[number] = _Lost(link, container)
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep_on(), name="sweep of lost containers")

    async def sweep(self, link: Link | None = None) -> None:
        """Remove what is lost, of one runtime or of all, where it answers again."""
        for number, lost in list(self._lost.items()):
            if link is not None and lost.link is not link:
                continue
            try:
                await lost.link.call(lambda runtime, n=number, one=lost: self._remove(runtime, n, one))  # type: ignore[misc]
            except RuntimeUnavailableError:
                continue
            except EngineError as error:
                log.warning("a container that was lost cannot be removed: %s", error)
                continue
            if self._lost.get(number) is lost:
                del self._lost[number]

    async def aclose(self) -> None:
        """Try once more; the record of what is lost all the same stays for the next server."""
        if self._sweeping is not None:
            await cancel(self._sweeping)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_SWEEP_TIMEOUT):
                await self.sweep()

    async def _sweep_on(self) -> None:
        pause = FIRST_SWEEP
        while self._lost:
            await asyncio.sleep(pause)
            await self.sweep()
            pause = min(2 * pause, LAST_SWEEP)

    def close(self) -> None:
        """Blocks. The file stays where something is on record."""
        self._file.close()

    def _remove(self, runtime: ContainerRuntime, number: int, lost: _Lost) -> None:
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
