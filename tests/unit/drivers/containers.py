"""A container driver over a runtime in memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lemonpod.drivers.container import ContainerDriver
from lemonpod.drivers.container_engine import ContainerEngine
from lemonpod.engine.settings import EngineSettings
from lemonpod.launch.plan import LaunchPlan
from tests.factories import make_container_plan
from tests.fakes.runtime import FakeRuntime, FakeRuntimes
from tests.waiting import unused_port

SETTINGS = EngineSettings(stop_grace=2.0, stop_command_timeout=2.0)


def plan_of(*command: str, **given: object) -> LaunchPlan:
    port = unused_port()
    words = tuple(str(port) if word == "PORT" else word for word in command)
    return make_container_plan(*words, port=port, **given)  # type: ignore[arg-type]


@dataclass
class World:
    """One server's driver, and the runtime that outlives it."""

    state: Path
    runtimes: FakeRuntimes
    driver: ContainerDriver

    @property
    def runtime(self) -> FakeRuntime:
        return self.runtimes.runtime

    def create(self, *command: str, **given: object) -> ContainerEngine:
        return self.driver.create(plan_of(*command, **given))

    async def started(self, *command: str, **given: object) -> ContainerEngine:
        engine = self.create(*command, **given)
        await engine.start()
        return engine

    def next_server(self) -> World:
        """A server on the same state folder and the same runtime."""
        return World(*make_server(self.state, FakeRuntimes(self.runtime)))

    def die(self) -> None:
        """As by `kill -9`: nothing is cleared away, and the lock on the run's file goes."""
        file = self.driver._run._file
        assert file._fd is not None
        os.close(file._fd)
        file._fd = None


def make_server(state: Path, runtimes: FakeRuntimes) -> tuple[Path, FakeRuntimes, ContainerDriver]:
    environ = {"PATH": "/usr/bin:/bin"}
    return state, runtimes, ContainerDriver(state, environ, SETTINGS, runtimes=runtimes)
