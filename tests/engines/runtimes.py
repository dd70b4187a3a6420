"""What tests of container runtimes share: a runtime of a lab's engine, specs, and calls in other threads."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from lemonpod.drivers.address import Address
from lemonpod.drivers.docker import DockerRuntime
from lemonpod.drivers.podman import PodmanRuntime
from lemonpod.drivers.runtime import ContainerRuntime, Halt
from lemonpod.launch.container import ContainerSpec, Namespace, Runtime
from tests.lab.engine import ContainerEngine
from tests.lab.images import TINY

TEST_PREFIX = "lemonpod-test-"
LABEL = {"lemonpod.test": "runtimes"}


def runtime_of(engine: ContainerEngine) -> ContainerRuntime:
    address = Address(engine.url, "the lab")
    return PodmanRuntime(address) if engine.runtime == "podman" else DockerRuntime(address)


def tiny(engine: ContainerEngine, name: str, *command: str, **overrides: Any) -> ContainerSpec:
    """A container of the tiny image on the host's network."""
    fields: dict[str, Any] = {
        "runtime": Runtime(engine.runtime),
        "image": TINY,
        "name": f"{TEST_PREFIX}{name}",
        "command": command or ("sleep", "1000"),
        "network_mode": Namespace("host"),
    }
    return ContainerSpec(**{**fields, **overrides})


def started(runtime: ContainerRuntime, spec: ContainerSpec) -> str:
    container = runtime.create(spec, LABEL)
    runtime.start(container)
    return container


def log_of(runtime: ContainerRuntime, container: str) -> bytes:
    """All of it, once the container has ended."""
    written: list[bytes] = []
    runtime.logs(container, written.append, Halt())
    return b"".join(written)


class Background:
    """A blocking call in a thread of its own."""

    def __init__(self, call: Callable[[Halt], object]) -> None:
        self.halt = Halt()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[Halt], object]) -> None:
        try:
            call(self.halt)
        except Exception as error:
            self.error = error

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def end(self, timeout: float = 45.0) -> BaseException | None:
        """Wait for it; what it raised."""
        self._thread.join(timeout)
        if not self.ended:
            frame = sys._current_frames().get(self._thread.ident or 0)
            where = "".join(traceback.format_stack(frame)) if frame else "nobody knows where"
            raise AssertionError(f"the call did not return, it is in\n{where}")
        return self.error
