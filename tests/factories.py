"""Valid values by default; a test overrides what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.vocabulary import Accelerator, Capability, Mode, Os, SlotPolicy
from lemonpod.host.facts import HostFacts
from lemonpod.launch.argv.connection import Connection
from lemonpod.launch.container import ContainerSpec, PortMapping, Runtime
from lemonpod.launch.plan import ContainerLaunch, LaunchPlan, ProcessSpec, TcpEndpoint
from lemonpod.models.entry import ModelEntry


def make_document(**overrides: Any) -> dict[str, Any]:
    """A manifest document with every required field and nothing else; an override of None removes a field."""
    document: dict[str, Any] = {
        "recipe": "test-engine",
        "display_name": "Test engine",
        "api_contract_version": "1",
        "capabilities": ["chat_completion", "completion"],
        "platforms": {"linux": {"cpu": {"command": "/opt/engine", "args": ["--port", "{port}"]}}},
    }
    document.update(overrides)
    return {name: value for name, value in document.items() if value is not None}


def make_facts(**overrides: Any) -> HostFacts:
    facts: dict[str, Any] = {
        "os": Os.LINUX,
        "os_version": "Linux-6.1.0 (Debian GNU/Linux 12)",
        "machine": "x86_64",
        "cpu_name": "Test CPU",
        "cpu_count": 2,
        "memory_bytes": 8 << 30,
        "accelerators": (Accelerator.CPU,),
    }
    return HostFacts(**(facts | overrides))


def make_entry(**overrides: Any) -> ModelEntry:
    entry: dict[str, Any] = {
        "id": "user.m",
        "recipe": "test-engine",
        "checkpoints": {},
        "labels": (),
        "recipe_options": {},
        "saved_options": {},
    }
    return ModelEntry(**(entry | overrides))


def make_plan(
    *argv: str,
    port: int,
    probe: HealthProbe | None = None,
    env: Mapping[str, str] = MappingProxyType({}),
    cwd: Path | None = None,
    **overrides: Any,
) -> LaunchPlan:
    """A plan for the process `argv` that is to answer on `port`."""
    plan: dict[str, Any] = {
        "recipe": "test-engine",
        "model": "user.m",
        "mode": Mode.CHAT,
        "capabilities": frozenset({Capability.CHAT_COMPLETION, Capability.COMPLETION}),
        "block_path": "platforms.linux.cpu",
        "accelerator": Accelerator.CPU,
        "device": "cpu",
        "endpoint": TcpEndpoint(host="127.0.0.1", port=port),
        "spec": ProcessSpec(argv=argv, cwd=cwd),
        "env": env,
        "probe": probe or HealthProbe(timeout=10.0, interval=0.02),
        "peer_checked": True,
        "stop": None,
        "slot_policy": SlotPolicy.STANDARD,
        "engine_paths": {},
        "downsize_endpoint": None,
        "options": {},
        "values": {},
        "selection": (),
        "digest": "0" * 64,
    }
    return LaunchPlan(**(plan | overrides))


def make_container_plan(
    *command: str,
    port: int,
    image: str = "localhost/engine:1",
    runtime: Runtime = Runtime.PODMAN,
    published: bool = True,
    connection: Connection | None = None,
    probe: HealthProbe | None = None,
    plan: Mapping[str, Any] = MappingProxyType({}),
    **spec: Any,
) -> LaunchPlan:
    """A plan for a container of `image` that runs `command`, with its port published; `spec` is what else is
    asked of it, `plan` what else is different."""
    ports = (PortMapping(host_ip="127.0.0.1", host_port=port, container_port=port),) if published else ()
    container = ContainerSpec(runtime=runtime, image=image, command=command, **({"ports": ports} | spec))
    launch = ContainerLaunch(
        argv=(runtime.value, "run", image, *command),
        cwd=None,
        program=runtime.value,
        connection=connection or Connection(),
        container=container,
    )
    return make_plan(port=port, probe=probe, **{"spec": launch, **plan})
