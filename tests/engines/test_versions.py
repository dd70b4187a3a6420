"""Flags that an old engine passes over in silence are refused there, and do what they say on a newer one."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

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
        "--annotation a=b": "'--annotation' needs docker's API 1.43, and 1.41, which is here",
        "--health-cmd true --health-start-interval 2s": "'--health-start-interval' needs docker's API 1.44",
        "--mount type=volume,src=models,dst=/models,volume-subpath=a": "volume-subpath=…' needs docker's API",
    },
    "podman": {
        "--user 12:12 --group-entry lab:x:12:": "'--group-entry' needs podman 4.4, and 4.3.1, which is here",
        "--add-host up:host-gateway": "host-gateway' needs podman 4.7",
        "--privileged --device /dev/null:/dev/accel0": "'--device PATH:ANOTHER beside --privileged' needs",
    },
}


@pytest.fixture
def runtime(engine: ContainerEngine) -> Iterator[ContainerRuntime]:
    runtime = runtime_of(engine)
    yield runtime
    runtime.close()


def spec_of(engine: ContainerEngine, flags: str, *command: str) -> ContainerSpec:
    name = "--name lemonpod-test-versions"
    parsed = split([engine.runtime, "create", *name.split(), *flags.split(), TINY, *command])
    assert parsed is not None
    return container_spec(parsed, Caller(cwd="/", env={}, read=lambda path: path))


@pytest.mark.parametrize("index", range(3))
def test_what_its_version_does_not_know(
    engine: ContainerEngine, runtime: ContainerRuntime, index: int
) -> None:
    flags, why = list(FLAGS[engine.runtime].items())[index]
    spec = spec_of(engine, flags, "true")
    if engine.name not in OLD:
        assert runtime.create(spec, LABEL)
        return
    with pytest.raises(SpawnError, match="in silence") as raised:
        runtime.create(spec, LABEL)
    assert why in raised.value.message
    assert raised.value.hint == f"upgrade {engine.runtime}, or do without it"
    assert engine.containers() == []


def test_what_every_version_knows(engine: ContainerEngine, runtime: ContainerRuntime) -> None:
    flags = "--privileged --device /dev/null --device /dev/zero:/dev/zero --add-host up:127.0.0.9"
    assert runtime.create(spec_of(engine, flags, "true"), LABEL)


def test_what_the_engine_warns_of_is_logged(
    engine: ContainerEngine, runtime: ContainerRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    ports = (PortMapping(host_port=8080, container_port=80),)
    with caplog.at_level(logging.WARNING):
        runtime.create(tiny(engine, "warned", network_mode=Namespace("host"), ports=ports), LABEL)
    assert any("discarded" in record.getMessage() for record in caplog.records), caplog.text
