"""Flags that an old engine passes over in silence are refused there, and do what they say on a newer one."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from lemonpod.drivers.address import Address
from lemonpod.drivers.docker import DockerRuntime
from lemonpod.drivers.runtime import ContainerRuntime
from lemonpod.errors import SpawnError
from lemonpod.launch.argv.run import container_spec
from lemonpod.launch.argv.split import split
from lemonpod.launch.argv.values import Caller
from lemonpod.launch.container import ContainerSpec, Namespace, PortMapping
from tests.engines.runtimes import LABEL, runtime_of, tiny
from tests.lab.engine import ContainerEngine
from tests.lab.images import TINY

OLD = {"podman4", "podman4-rootless", "docker20"}
FLAGS = {
    "docker": {
        "--annotation a=b": ("'--annotation'", "1.43"),
        "--health-cmd true --health-start-interval 2s": ("'--health-start-interval'", "1.44"),
        "--mount type=volume,src=models,dst=/models,volume-subpath=a": ("volume-subpath=…'", "1.45"),
    },
    "podman": {
        "--user 12:12 --group-entry lab:x:12:": ("'--group-entry'", "4.4"),
        "--add-host up:host-gateway": ("host-gateway'", "4.7"),
        "--privileged --device /dev/null:/dev/accel0": ("beside --privileged'", "5.2"),
    },
}


@pytest.fixture
def runtime(engine: ContainerEngine) -> Iterator[ContainerRuntime]:
    runtime = runtime_of(engine)
    yield runtime
    runtime.close()


def spec_of(program: str, flags: str, *command: str) -> ContainerSpec:
    name = "--name lemonpod-test-versions"
    parsed = split([program, "create", *name.split(), *flags.split(), TINY, *command])
    assert parsed is not None
    return container_spec(parsed, Caller(cwd="/", env={}, read=lambda path: path))


@pytest.mark.parametrize("index", range(3))
def test_what_its_version_does_not_know(
    engine: ContainerEngine, runtime: ContainerRuntime, index: int
) -> None:
    flags, (flag, needed) = list(FLAGS[engine.runtime].items())[index]
    spec = spec_of(engine.runtime, flags, "true")
    if engine.name not in OLD:
        assert runtime.create(spec, LABEL)
        return
    with pytest.raises(SpawnError) as raised:
        runtime.create(spec, LABEL)
    here = "podman 4.3.1" if engine.runtime == "podman" else "docker's API 1.41"
    assert f"{here} would pass over '" in raised.value.message
    assert flag in raised.value.message
    assert f"{needed} does what it says" in (raised.value.hint or "")
    assert engine.containers() == []


@pytest.mark.parametrize("engine", ["podman4", "podman5"], indirect=True)
@pytest.mark.parametrize(
    "flags",
    [
        "--gpus all",
        "--runtime nvidia",
        "--security-opt systempaths=unconfined",
        "--device nvidia.com/gpu=all",
    ],
)
def test_docker_that_is_podman(engine: ContainerEngine, flags: str) -> None:
    runtime = DockerRuntime(Address(engine.url, "the lab"))
    spec = spec_of("docker", flags, "true")
    if "nvidia.com" in flags and engine.name not in OLD:
        assert runtime.create(spec, LABEL)
    else:
        with pytest.raises(
            SpawnError, match=f"imitation of docker {engine.version} would pass over"
        ) as raised:
            runtime.create(spec, LABEL)
        assert "'podman' for the command" in (raised.value.hint or "")
    runtime.close()


def test_what_every_version_knows(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    flags = "--privileged --device /dev/null --device /dev/zero:/dev/zero --add-host up:127.0.0.9"
    assert runtime.create(spec_of(engine.runtime, flags, "true"), LABEL)


def test_what_the_engine_warns_of_is_logged(
    engine: ContainerEngine, runtime: ContainerRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    ports = (PortMapping(host_port=8080, container_port=80),)
    with caplog.at_level(logging.WARNING):
        runtime.create(tiny(engine, "warned", network_mode=Namespace("host"), ports=ports), LABEL)
    assert any("discarded" in record.getMessage() for record in caplog.records), caplog.text
