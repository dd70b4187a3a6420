"""What is asked of a container runtime: the blocking seam that podman and docker each fill in.

Every method may be called from any thread, and several at a time. All raise RuntimeUnavailableError where the
runtime does not answer, which says nothing about its containers, and EngineError for what it refuses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.container import ContainerSpec, Platform, PullPolicy, Runtime


class Halted(Exception):
    """The call was ended by its Halt."""


class Halt:
    """Ends a call that another thread is in, by closing what it reads from; it then raises Halted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._close: Callable[[], None] | None = None
        self._called = False

    def call(self) -> None:
        """End the call, or the next one at once. Idempotent, and never blocks for long."""
        with self._lock:
            self._called = True
            if self._close is not None:
                self._close()

    @property
    def called(self) -> bool:
        return self._called

    @contextmanager
    def closing(self, close: Callable[[], None]) -> Iterator[None]:
        """While in the block, `call` calls `close`; whatever is raised after that becomes Halted."""
        with self._lock:
            if self._called:
                close()
                raise Halted
            self._close = close
        try:
            yield
        except Exception as error:
            if self._called:
                raise Halted from error
            raise
        finally:
            with self._lock:
                self._close = None
        if self._called:
            raise Halted


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeInfo:
    runtime: Runtime
    version: str
    api_version: str
    rootless: bool
    local: bool
    """Its containers are processes of this machine, and their pids ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    id: str
    digests: tuple[str, ...]
    """As `name@sha256:…`, of the manifest and of the index that led to it."""
    platform: Platform


@dataclass(frozen=True, slots=True)
class Published:
    """A port of the host that leads into the container."""

    host_ip: str
    host_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerInfo:
    """What the runtime says of a container now."""

    id: str
    name: str
    labels: Mapping[str, str]
    status: str
    """The runtime's own word."""
    running: bool
    """False for every word that is not known to mean so."""
    pid: int | None
    """Of its first process, where it runs."""
    exit_code: int | None
    """None before it has ended."""
    oom_killed: bool
    error: str
    """Why the runtime could not run it; empty if it could."""
    started_at: float | None
    """Seconds since the epoch, as `finished_at`."""
    finished_at: float | None
    host_network: bool
    published: tuple[Published, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A container in a list, with what every version of a runtime says there."""

    id: str
    name: str
    labels: Mapping[str, str]
    running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Unknown is None."""

    cpu_seconds: float | None
    """Since the start."""
    memory_bytes: int | None
    processes: int | None


class ContainerRuntime(Protocol):
    """One engine of podman or docker, reached over its API."""

    def info(self) -> RuntimeInfo: ...

    def image(self, reference: str, platform: Platform | None = None) -> ImageInfo | None:
        """The image as the runtime has it, by the runtime's own reading of a short name; None if it has none
        for the platform."""

    def pull(
        self,
        reference: str,
        *,
        policy: PullPolicy,
        platform: Platform | None,
        received: Callable[[int, int | None], None],
        halt: Halt,
    ) -> None:
        """Fetch an image; `received` hears of bytes done and in all. Policies are ALWAYS, NEWER or MISSING.

        Raises ImageNotFoundError or PullError with the registry's own reason, or Halted.
        """

    def create(self, spec: ContainerSpec, labels: Mapping[str, str]) -> str:
        """The id of the new container; it never pulls, and never removes itself.

        Raises ImageNotFoundError, NameConflictError or SpawnError.
        """

    def start(self, container: str) -> None:
        """Raises SpawnError with the runtime's reason."""

    def inspect(self, container: str) -> ContainerInfo | None:
        """By id, or by exactly this name; None if there is no such container."""

    def containers(self, labels: Mapping[str, str]) -> Sequence[Listed]:
        """All that carry these labels, running or not."""

    def logs(
        self, container: str, write: Callable[[bytes], None], halt: Halt, *, follow: bool = True
    ) -> None:
        """Hand on all that it has written, both streams, and with `follow` what it writes until it ends, or
        raise Halted."""

    def wait(self, container: str, halt: Halt) -> None:
        """Return when it does not run, or is gone, or raise Halted."""

    def stop(self, container: str, timeout: int) -> None:
        """Its stop signal, then KILL after so many seconds. One that is gone or ended is no error."""

    def kill(self, container: str, signal: str) -> None:
        """One that is gone or ended is no error."""

    def remove(self, container: str) -> None:
        """Kill it if it runs, and remove it with its unnamed volumes. One that is gone is no error."""

    def carry_out(self, stop: ContainerStop) -> None:
        """A manifest's stop command. Raises EngineError for what its program would complain of."""

    def usage(self, container: str) -> Usage: ...

    def close(self) -> None:
        """Let go of all connections."""
