"""An engine that stops, vanishes and comes back under calls, and one that is not there at all."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lemonpod.drivers.address import Address
from lemonpod.drivers.docker import DockerRuntime
from lemonpod.drivers.podman import PodmanRuntime
from lemonpod.drivers.runtime import ContainerRuntime, Halt
from lemonpod.errors import RuntimeUnavailableError
from lemonpod.launch.container import PullPolicy
from tests.engines.runtimes import Background, runtime_of, started, tiny
from tests.lab.engine import ContainerEngine
from tests.lab.random_image import put_random_image
from tests.lab.registry import Registry, slowed
from tests.lab.waiting import wait_until
from tests.users import bound_by_modes, open_folder

Make = Callable[[Address], ContainerRuntime]

BOTH = pytest.mark.parametrize("make", [PodmanRuntime, DockerRuntime], ids=["podman", "docker"])


@pytest.fixture
def runtime(engine: ContainerEngine) -> Iterator[ContainerRuntime]:
    runtime = runtime_of(engine)
    yield runtime
    runtime.close()
    engine.start_service()  # where a test failed before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_an_engine_that_goes_and_comes_back(
    engine: ContainerEngine, runtime: ContainerRuntime, number: signal.Signals
) -> None:
    container = started(runtime, tiny(engine, "outage", "sh", "-c", "echo up; exec sleep 1000"))
    said: list[bytes] = []
    logs = Background(lambda halt: runtime.logs(container, said.append, halt))
    wait_until(lambda: said, "the first line")
    wait = Background(lambda halt: runtime.wait(container, halt))
    assert runtime.inspect(container) is not None
    engine.stop_service(number)
    assert isinstance(wait.end(), RuntimeUnavailableError)
    assert isinstance(logs.end(), RuntimeUnavailableError | None)  # one that stops may end it well
    asks: dict[str, Callable[[], object]] = {
        "inspect": lambda: runtime.inspect(container),
        "wait": lambda: runtime.wait(container, Halt()),
        "stop": lambda: runtime.stop(container, 1),
        "remove": lambda: runtime.remove(container),
        "containers": lambda: runtime.containers({}),
        "usage": lambda: runtime.usage(container),
    }
    assert [name for name, ask in asks.items() if not is_unavailable(ask)] == []
    engine.start_service()
    info = runtime.inspect(container)
    assert info is not None
    assert info.running


def is_unavailable(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except RuntimeUnavailableError as error:
        return "api.sock" in str(error)
    return False


def test_an_engine_that_goes_in_a_pull(
    engine: ContainerEngine, runtime: ContainerRuntime, registry: Registry
) -> None:
    image = put_random_image(registry, f"outage-{engine.name}:1", megabytes=8)
    heard: list[int] = []
    with slowed(registry, 2 << 20) as slow:
        reference = image.replace(registry.address, slow.address)
        pull = Background(
            lambda halt: runtime.pull(
                reference,
                policy=PullPolicy.ALWAYS,
                platform=None,
                received=lambda done, _: heard.append(done),
                halt=halt,
            )
        )
        wait_until(lambda: heard, "the first bytes")
        engine.stop_service(signal.SIGKILL)
        assert isinstance(pull.end(), RuntimeUnavailableError)
    engine.start_service()


@BOTH
def test_nobody_is_asked_before_the_first_call(make: Make) -> None:  # C17
    runtime = make(Address("unix:///no/such.sock", "--url"))
    with pytest.raises(RuntimeUnavailableError, match=r"/no/such\.sock .*no such file") as raised:
        runtime.inspect("x")
    assert "--url" in (raised.value.hint or "")
    runtime.close()


@BOTH
def test_what_is_no_socket(make: Make, tmp_path: Path) -> None:  # C17
    (tmp_path / "api.sock").write_text("")
    with pytest.raises(RuntimeUnavailableError, match="not a socket"):
        make(Address(f"unix://{tmp_path}/api.sock", "--url")).containers({})


@BOTH
def test_a_socket_that_nobody_listens_on(make: Make, tmp_path: Path) -> None:  # C17
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "api.sock"))
    start = "sudo systemctl start it"
    with pytest.raises(RuntimeUnavailableError, match="stale") as raised:
        make(Address(f"unix://{tmp_path}/api.sock", "usual", start=start)).wait("x", Halt())
    assert raised.value.hint == start


@BOTH
def test_a_socket_that_is_not_for_us(make: Make) -> None:  # C17
    with open_folder() as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "api.sock"))
        os.chmod(folder / "api.sock", 0o600)
        if os.geteuid() != 0:
            os.chmod(folder / "api.sock", 0o000)
        listening.listen()
        runtime = make(Address(f"unix://{folder}/api.sock", "usual"))
        with bound_by_modes(), pytest.raises(RuntimeUnavailableError, match="may not connect"):
            runtime.logs("x", lambda _: None, Halt())


def test_docker_is_not_podman(engine: ContainerEngine) -> None:
    if engine.runtime == "podman":
        pytest.skip("podman answers what docker is asked, and does it well enough")
    with pytest.raises(RuntimeUnavailableError, match="is not podman"):
        PodmanRuntime(Address(engine.url, "--url")).info()


def test_the_sdks_are_not_imported_before_they_are_needed() -> None:
    script = """
import sys
import lemonpod.drivers.podman, lemonpod.drivers.docker
from lemonpod.drivers.address import Address
lemonpod.drivers.podman.PodmanRuntime(Address("unix:///x", ""))
lemonpod.drivers.docker.DockerRuntime(Address("unix:///x", ""))
assert not {"podman", "docker", "requests", "urllib3"} & set(sys.modules)
"""
    subprocess.run((sys.executable, "-c", script), check=True)
