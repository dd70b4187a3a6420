"""Which container runtime a command line means: found at its address, or started, and shared by all."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, TypeAlias, TypeVar

from lemonpod.drivers.address import Address, Tls, addresses
from lemonpod.drivers.podman_service import PodmanService
from lemonpod.drivers.reach import first_reachable
from lemonpod.drivers.runtime import ContainerRuntime, Halt, RuntimeInfo
from lemonpod.drivers.threads import Threads
from lemonpod.engine.tasks import cancel
from lemonpod.errors import RuntimeUnavailableError
from lemonpod.launch.argv.connection import Connection
from lemonpod.launch.container import Runtime
from lemonpod.launch.plan import ContainerLaunch

NOWHERE: Final = Path("/nonexistent")
"""The home folder of who has none."""

_Key: TypeAlias = tuple[Runtime, str, Tls | None]

Connect: TypeAlias = Callable[[Runtime, Address], ContainerRuntime]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which runtime a command line asks: what it takes to find it, today and after a crash."""

    runtime: Runtime
    program: str
    """What is run where podman has no service."""
    connection: Connection

    @classmethod
    def of(cls, launch: ContainerLaunch) -> Place:
        return cls(runtime=launch.container.runtime, program=launch.program, connection=launch.connection)


class Runtimes(Protocol):
    """Where the driver gets its runtimes from."""

    async def find(self, place: Place) -> Link:
        """Raises RuntimeUnavailableError where nobody answers there."""

    async def aclose(self) -> None:
        """Let go of all of them, and wait for the threads that are in a call."""


class Link:
    """One runtime, asked from the event loop. Its calls raise what those of ContainerRuntime do."""

    def __init__(self, place: Place, open_runtime: Callable[[], ContainerRuntime], threads: Threads) -> None:
        """`open_runtime` is called before each call, in its thread."""
        self.place = place
        self._open = open_runtime
        self._threads = threads
        self._info: asyncio.Task[RuntimeInfo] | None = None

    async def call(self, ask: Callable[[ContainerRuntime], T]) -> T:
        """A short call; a cancelled caller leaves it to itself."""
        return await self._threads.run(lambda: ask(self._open()))

    async def stream(self, ask: Callable[[ContainerRuntime, Halt], T]) -> T:
        """A call that may take for ever; it is ended before a cancelled caller goes on."""
        halt = Halt()
        return await self._threads.run(lambda: ask(self._open(), halt), halt=halt)

    def learn(self) -> None:
        """Begin to ask for what `info` answers: podman takes a quarter of a second."""
        if self._info is None or (self._info.done() and self._info.exception() is not None):
            self._info = asyncio.create_task(self.call(lambda runtime: runtime.info()))

    async def info(self) -> RuntimeInfo:
        """What never changes of it."""
        self.learn()
        assert self._info is not None  # noqa: S101 - just made
        return await asyncio.shield(self._info)

    async def aclose(self) -> None:
        """Ask nothing any more."""
        if self._info is not None:
            await cancel(self._info)


class LocalRuntimes:
    """Runtimes at the usual places of this machine, at those that somebody named, or started for us."""

    def __init__(
        self, environ: Mapping[str, str], state_dir: Path, *, connect: Connect | None = None
    ) -> None:
        self._environ = environ
        self._state_dir = state_dir
        self._connect = connect or _connect
        self._threads = Threads("lemonpod-container")
        self._lock = threading.Lock()
        self._links: dict[_Key, Link] = {}
        self._runtimes: dict[_Key, ContainerRuntime] = {}
        self._services: dict[str, PodmanService] = {}

    async def find(self, place: Place) -> Link:
        return await self._threads.run(lambda: self._find(place))

    async def aclose(self) -> None:
        for link in self._links.values():
            await link.aclose()
        await self._threads.run(self._close)
        await self._threads.aclose()

    def _find(self, place: Place) -> Link:
        with self._lock:
            try:
                address, service = self._reach(place), None
            except RuntimeUnavailableError:
                if not self._may_start(place):
                    raise
                service = self._service(place.program)
                address = service.address
            key = (place.runtime, address.url, address.tls)
            if key not in self._links:
                if service is None and address.tls is None:
                    # Found there again whatever the environment says then.
                    place = replace(place, connection=Connection(url=address.url))
                self._links[key] = Link(place, lambda: self._runtime(key, address, service), self._threads)
            return self._links[key]

    def _reach(self, place: Place) -> Address:
        home, said = Path(self._environ.get("HOME") or NOWHERE), place.connection
        return first_reachable(
            addresses(place.runtime, said.url, said.context, self._environ, home=home, euid=os.geteuid())
        )

    def _may_start(self, place: Place) -> bool:
        """Nobody has said where the engine is, and podman needs none that runs all the time."""
        named = place.connection.url or self._environ.get("CONTAINER_HOST")
        return place.runtime is Runtime.PODMAN and not named

    def _service(self, program: str) -> PodmanService:
        if program not in self._services:
            runtime_dir = self._environ.get("XDG_RUNTIME_DIR")
            folders = [Path(runtime_dir)] if runtime_dir else []
            folders += [self._state_dir, Path(tempfile.gettempdir())]
            self._services[program] = PodmanService(program, self._environ, folders)
        return self._services[program]

    def _runtime(self, key: _Key, address: Address, service: PodmanService | None) -> ContainerRuntime:
        if service is not None:
            service.ensure()
        with self._lock:
            if key not in self._runtimes:
                self._runtimes[key] = self._connect(key[0], address)
            return self._runtimes[key]

    def _close(self) -> None:
        for runtime in self._runtimes.values():
            runtime.close()
        for service in self._services.values():
            service.close()


def _connect(kind: Runtime, address: Address) -> ContainerRuntime:
    """Imports the SDK: a third of a second, the first time."""
    match kind:
        case Runtime.PODMAN:
            from lemonpod.drivers.podman import PodmanRuntime

            return PodmanRuntime(address)
        case Runtime.DOCKER:
            from lemonpod.drivers.docker import DockerRuntime

            return DockerRuntime(address)
