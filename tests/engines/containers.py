"""Plans for containers of the lab's engines, which all have the tiny image."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lemonpod.contract.manifest import HealthProbe
from lemonpod.drivers.container import ContainerDriver
from lemonpod.engine.settings import EngineSettings
from lemonpod.launch.argv.connection import Connection
from lemonpod.launch.container import Namespace, Runtime
from lemonpod.launch.plan import LaunchPlan
from tests.factories import make_container_plan
from tests.lab.engine import ContainerEngine
from tests.lab.images import TINY
from tests.waiting import unused_port

SETTINGS = EngineSettings(stop_grace=5.0, stop_command_timeout=5.0)
PROBE = HealthProbe(endpoint="/health", timeout=30.0, interval=0.02)


def serving_script(port: int) -> str:
    """An engine in shell: says so, answers /health with 200, and ends by TERM."""
    return (
        f"echo engine started; httpd -f -p 127.0.0.1:{port} -h /www & trap 'kill $!; exit 143' TERM; wait $!"
    )


def container_plan(
    engine: ContainerEngine, *command: str, port: int | None = None, image: str = TINY, **given: Any
) -> LaunchPlan:
    """A plan on the host's network, found by the environment of `container_driver` or by its own address."""
    return make_container_plan(
        *command,
        port=port or unused_port(),
        image=image,
        runtime=Runtime(engine.runtime),
        probe=PROBE,
        **{"published": False, "network_mode": Namespace("host"), **given},
    )


def serving_plan(engine: ContainerEngine, **given: Any) -> LaunchPlan:
    port = unused_port()
    return container_plan(engine, "sh", "-c", serving_script(port), port=port, **given)


def container_driver(
    engine: ContainerEngine, state: Path, settings: EngineSettings = SETTINGS, **environ: str
) -> ContainerDriver:
    """A server's driver that finds just this engine."""
    return ContainerDriver(state, {**environment_of(engine), **environ}, settings)


def environment_of(engine: ContainerEngine) -> Mapping[str, str]:
    return {"HOME": os.environ["HOME"], **engine.env}


def connection_to(engine: ContainerEngine) -> Connection:
    return Connection(url=engine.url)
