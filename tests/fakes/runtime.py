"""A container runtime in memory: containers do what the words of their command say, and it can fall silent.

    say TEXT    write a line        serve PORT  answer HTTP on a loopback port from now on
    exit CODE   end by itself       stubborn    do not end by the stop signal

As the real ones it is blocking, and may be asked by many threads at once.
"""

from __future__ import annotations

import hashlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lemonpod.drivers.runtime import (
    ContainerInfo,
    Halt,
    ImageInfo,
    Listed,
    Published,
    RuntimeInfo,
    Usage,
)
from lemonpod.drivers.runtimes import Link, Place
from lemonpod.drivers.threads import Threads
from lemonpod.errors import (
    EngineError,
    ImageNotFoundError,
    NameConflictError,
    RuntimeUnavailableError,
    SpawnError,
)
from lemonpod.launch.argv.connection import Connection
from lemonpod.launch.argv.flags import StopVerb
from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.container import ContainerSpec, Platform, PullPolicy, Runtime

LOCAL = "localhost/engine:1"
"""An image that is there."""
REMOTE = "registry.test/engine:1"
"""One that can be pulled."""
PLACE = Place(runtime=Runtime.PODMAN, program="podman", connection=Connection())


@dataclass(eq=False)
class FakeContainer:
    id: str
    spec: ContainerSpec
    labels: Mapping[str, str]
    status: str = "created"
    exit_code: int | None = None
    oom_killed: bool = False
    error: str = ""
    pid: int | None = None
    started_at: float | None = None
    output: bytes = b""
    listener: socket.socket | None = None
    stubborn: bool = False

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def name(self) -> str:
        return self.spec.name or f"funny_{self.id[:6]}"


@dataclass
class FakeRuntime:
    containers_: dict[str, FakeContainer] = field(default_factory=dict)
    images: set[str] = field(default_factory=lambda: {LOCAL})
    remote: set[str] = field(default_factory=lambda: {REMOTE})
    pull_steps: Sequence[tuple[int, int | None]] = ((0, 100), (40, 100), (100, 100))
    pull_gate: threading.Event = field(default_factory=threading.Event)
    """A pull waits for it after its first step."""
    failures: dict[str, Exception] = field(default_factory=dict)
    """What the next call of a method raises."""
    calls: list[str] = field(default_factory=list)
    local: bool = True
    pid: int = 4711
    """Of the containers that start from now on."""
    remains: bool = False
    """Removed containers stay."""

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._silent = False
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._numbers = itertools.count(1)
        self.pull_gate.set()

    # --- what tests do to it ------------------------------------------------------------------------------

    def vanish(self) -> None:
        """From now on nobody answers, in calls that wait either."""
        with self._changed:
            self._silent = True
            self._changed.notify_all()

    def hang(self) -> None:
        """From now on no call is answered, and none is refused."""
        self._goes_on.clear()

    def come_back(self) -> None:
        self._goes_on.set()
        with self._changed:
            self._silent = False
            self._changed.notify_all()

    def only(self) -> FakeContainer:
        (container,) = self.containers_.values()
        return container

    def say(self, container: FakeContainer, data: bytes) -> None:
        with self._changed:
            container.output += data
            self._changed.notify_all()

    def end(self, container: FakeContainer, code: int, *, oom: bool = False, error: str = "") -> None:
        """It ends by itself, or by a signal."""
        with self._changed:
            if container.running:
                container.status, container.exit_code = "exited", code
                container.oom_killed, container.error = oom, error
                container.pid = None
                _hang_up(container)
            self._changed.notify_all()

    def drop(self, container: FakeContainer) -> None:
        """Somebody else removes it."""
        self.end(container, 137)
        with self._changed:
            self.containers_.pop(container.id, None)
            self._changed.notify_all()

    def put(self, spec: ContainerSpec, labels: Mapping[str, str], status: str) -> FakeContainer:
        """One that was there before."""
        container = self.containers_[self.create(spec, labels)]
        container.status = status
        self.calls.clear()
        return container

    # --- the seam -----------------------------------------------------------------------------------------

    def info(self) -> RuntimeInfo:
        self._called("info")
        return RuntimeInfo(
            runtime=Runtime.PODMAN, version="5.0", api_version="5.0", rootless=False, local=self.local
        )

    def image(self, reference: str, platform: Platform | None = None) -> ImageInfo | None:
        self._called("image")
        if reference not in self.images:
            return None
        return ImageInfo(id="1", digests=(), platform=Platform())

    def pull(
        self,
        reference: str,
        *,
        policy: PullPolicy,
        platform: Platform | None,
        received: Callable[[int, int | None], None],
        halt: Halt,
    ) -> None:
        self._called("pull")
        with halt.closing(self._wake):
            for done, total in self.pull_steps:
                received(done, total)
                while not self.pull_gate.is_set() and not halt.called:
                    self.pull_gate.wait(0.01)
                if halt.called:
                    raise OSError("cut")
        if reference not in self.remote:
            raise ImageNotFoundError(f"the registry knows no {reference}")
        self.images.add(reference)

    def create(self, spec: ContainerSpec, labels: Mapping[str, str]) -> str:
        self._called("create")
        with self._changed:
            if spec.image not in self.images:
                raise ImageNotFoundError(f"there is no image {spec.image}")
            if spec.name and any(one.name == spec.name for one in self.containers_.values()):
                raise NameConflictError(f"the name {spec.name} is in use")
            number = next(self._numbers)
            id = hashlib.sha256(f"{number}".encode()).hexdigest()
            self.containers_[id] = FakeContainer(id, spec, {**spec.labels, **labels})
            return id

    def start(self, container: str) -> None:
        self._called("start")
        found = self.containers_[container]
        with self._changed:
            found.status, found.pid, found.started_at = "running", self.pid, time.time()
            self._changed.notify_all()
        words = iter(found.spec.command)
        for word in words:
            match word:
                case "say":
                    self.say(found, next(words).encode() + b"\n")
                case "serve":
                    found.listener = _serve(int(next(words)))
                case "exit":
                    self.end(found, int(next(words)))
                case "stubborn":
                    found.stubborn = True
                case _:
                    found.status = "created"
                    raise SpawnError(f"exec: {word}: not found")

    def inspect(self, container: str) -> ContainerInfo | None:
        self._called("inspect")
        with self._changed:
            found = self._find(container)
            return None if found is None else _info(found)

    def containers(self, labels: Mapping[str, str]) -> Sequence[Listed]:
        self._called("containers")
        with self._changed:
            return [
                Listed(id=one.id, name=one.name, labels=one.labels, running=one.running)
                for one in self.containers_.values()
                if labels.items() <= one.labels.items()
            ]

    def logs(
        self, container: str, write: Callable[[bytes], None], halt: Halt, *, follow: bool = True
    ) -> None:
        self._called("logs")
        told = 0
        with halt.closing(self._wake):
            while True:
                with self._changed:
                    self._answer()
                    found = self._find(container)
                    new = found.output[told:] if found else b""
                    over = found is None or not found.running or not follow
                    if not (new or over or halt.called):
                        self._changed.wait()
                told += len(new)
                if new:
                    write(new)
                if over or halt.called:
                    break

    def wait(self, container: str, halt: Halt) -> None:
        self._called("wait")
        with halt.closing(self._wake), self._changed:
            while (found := self._find(container)) and found.running and not halt.called:
                self._answer()
                self._changed.wait()
            self._answer()

    def stop(self, container: str, timeout: int) -> None:
        self._called("stop")
        found = self._find(container)
        if found is None:
            return
        if not found.stubborn:
            self.end(found, 143)
        with self._changed:
            self._changed.wait_for(lambda: not found.running, timeout)
        self.end(found, 137)

    def kill(self, container: str, signal: str) -> None:
        self._called("kill")
        if (found := self._find(container)) and signal == "KILL":
            self.end(found, 137)

    def remove(self, container: str) -> None:
        self._called("remove")
        with self._changed:
            found = self._find(container)
        if found is not None:
            self.end(found, 137)
            if not self.remains:
                self.drop(found)

    def carry_out(self, stop: ContainerStop) -> None:
        self._called(f"carry_out {stop.verb}")
        for name in stop.containers:
            if self._find(name) is None and not stop.ignore:
                raise EngineError(f"there is no container {name}")
            if stop.verb is StopVerb.STOP:
                self.stop(name, stop.timeout or 0)
            elif stop.verb is StopVerb.KILL:
                self.kill(name, stop.signal or "KILL")
            else:
                self.remove(name)

    def usage(self, container: str) -> Usage:
        self._called("usage")
        return Usage(cpu_seconds=time.monotonic(), memory_bytes=1 << 20, processes=1)

    def close(self) -> None:
        self.calls.append("close")

    def _called(self, name: str) -> None:
        self.calls.append(name)
        self._goes_on.wait()
        self._answer()
        if (error := self.failures.pop(name, None)) is not None:
            raise error

    def _answer(self) -> None:
        if self._silent:
            raise RuntimeUnavailableError("the fake is silent")

    def _find(self, container: str) -> FakeContainer | None:
        if container in self.containers_:
            return self.containers_[container]
        return next((one for one in self.containers_.values() if one.name == container), None)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


@dataclass
class FakeRuntimes:
    """One runtime for all places."""

    runtime: FakeRuntime = field(default_factory=FakeRuntime)
    asked: list[Place] = field(default_factory=list)
    error: RuntimeUnavailableError | None = None

    def __post_init__(self) -> None:
        self._threads = Threads("fake-runtime")
        self._link = Link(PLACE, lambda: self.runtime, self._threads)

    async def find(self, place: Place) -> Link:
        self.asked.append(place)
        if self.error is not None:
            raise self.error
        return self._link

    async def aclose(self) -> None:
        await self._link.aclose()
        self.runtime.close()
        await self._threads.aclose()


def _info(found: FakeContainer) -> ContainerInfo:
    ports = [
        Published(mapping.host_ip or "0.0.0.0", mapping.host_port)
        for mapping in found.spec.ports
        if mapping.host_port is not None
    ]
    mode = found.spec.network_mode
    return ContainerInfo(
        id=found.id,
        name=found.name,
        labels=found.labels,
        status=found.status,
        running=found.running,
        pid=found.pid,
        exit_code=found.exit_code,
        oom_killed=found.oom_killed,
        error=found.error,
        started_at=found.started_at,
        finished_at=None,
        host_network=mode is not None and mode.mode == "host",
        published=tuple(ports) if found.running else (),
    )


def _serve(port: int) -> socket.socket:
    """Answer every request with 200 until the socket is closed."""
    listener = socket.create_server(("127.0.0.1", port))

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    threading.Thread(target=answer, name="fake-listener", daemon=True).start()
    return listener


def _hang_up(container: FakeContainer) -> None:
    if container.listener is not None:
        with suppress(OSError):
            container.listener.shutdown(socket.SHUT_RDWR)
        container.listener.close()
        container.listener = None
