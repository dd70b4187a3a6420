"""What a launch is, as one frozen value. Everything a driver needs, and nothing it has to look up."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import cast

from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.tokens import Template, Token
from lemonpod.contract.vocabulary import Accelerator, Capability, JsonValue, Mode, SlotPolicy
from lemonpod.launch.argv.connection import Connection
from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.container import ContainerSpec, as_json


class Dialect(StrEnum):
    """Whose requests and answers an engine speaks."""

    OPENAI = "openai"
    LLAMA_CPP = "llama.cpp"
    WHISPER_CPP = "whisper.cpp"
    SD_CPP = "stable-diffusion.cpp"


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpEndpoint:
    """Where the engine answers HTTP."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """A native process. `argv[0]` is searched on the engine's PATH unless it holds a slash.

    `held` is the folder of an installed executable, which nobody removes for as long as the process runs.
    """

    argv: tuple[str, ...]
    cwd: Path | None
    held: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLaunch:
    """A container that its runtime is asked for over the API; `argv` and `cwd` ask for the same by hand.

    `program` is podman or docker, as the command line names it.
    """

    argv: tuple[str, ...]
    cwd: Path | None
    program: str
    connection: Connection
    container: ContainerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCommand:
    """The manifest's stop command. All its tokens are resolved but `{pid}`, known only once it runs."""

    argv: tuple[Template, ...]

    @property
    def names_pid(self) -> bool:
        """Whether it is about the engine's own process, and not about what may outlive that."""
        return any(isinstance(part, Token) for template in self.argv for part in template.parts)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A value and where it came from, as `load request`, `recipe_options.json` or `default`."""

    value: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """One engine, ready to start.

    `env` is what the manifest adds to the environment that a driver gives every engine.
    `engine_paths` holds only the remapped capabilities (the manifest's `endpoints`, over a backend's own).
    `peer_checked` is false where nobody can tell whose the engine's sockets are: a command line that hands
    over to a container runtime, and `by_cli` is why it is run as one.
    `values` and `selection` say how the plan came to be.
    """

    recipe: str
    model: str
    mode: Mode | None
    capabilities: frozenset[Capability]
    block_path: str
    accelerator: Accelerator
    device: str
    endpoint: TcpEndpoint
    spec: ProcessSpec | ContainerLaunch
    env: Mapping[str, str]
    probe: HealthProbe
    peer_checked: bool
    stop: StopCommand | ContainerStop | None
    slot_policy: SlotPolicy
    engine_paths: Mapping[Capability, str]
    downsize_endpoint: str | None
    options: Mapping[str, JsonValue]
    """The effective options of the model, as `/health` reports them."""
    values: Mapping[str, Resolved]
    """Every token that the plan used, as it is written in the manifest."""
    selection: tuple[str, ...]
    """One line a decision: operating system, accelerator, arch override, executable."""
    dialect: Dialect = Dialect.OPENAI
    by_cli: str | None = None
    overrides: Mapping[str, JsonValue] = field(default_factory=lambda: MappingProxyType({}))
    """The options of the load request alone, which make the same plan once more."""
    doubt: str | None = None
    """What this host lacks for the engine, which was chosen for want of another."""
    notes: tuple[str, ...] = ()
    """What is odd about it, though it starts."""
    digest: str
    """SHA-256 of all that the plan was made from but the port: equal digests start equal engines."""


def shell_line(plan: LaunchPlan) -> str:
    """The plan's command, ready to paste into a shell."""
    line = shlex.join(plan.spec.argv)
    if plan.env:
        line = f"env {shlex.join(f'{name}={value}' for name, value in plan.env.items())} {line}"
    return line if plan.spec.cwd is None else f"cd {shlex.quote(str(plan.spec.cwd))} && {line}"


def describe(plan: LaunchPlan) -> dict[str, JsonValue]:
    """The plan as JSON, with where each value came from."""
    return {
        "recipe": plan.recipe,
        "model": plan.model,
        "mode": plan.mode,
        "capabilities": [capability.value for capability in sorted(plan.capabilities)],
        "block": plan.block_path,
        "accelerator": plan.accelerator,
        "device": plan.device,
        "selection": list(plan.selection),
        "notes": list(plan.notes),
        "url": plan.endpoint.url,
        "driver": "container" if isinstance(plan.spec, ContainerLaunch) else "process",
        "by_cli": plan.by_cli,
        "container": _container(plan.spec),
        "argv": list(plan.spec.argv),
        "command_line": shell_line(plan),
        "working_dir": None if plan.spec.cwd is None else str(plan.spec.cwd),
        "env": dict(plan.env),
        "probe": {
            "type": plan.probe.type,
            "endpoint": plan.probe.endpoint,
            "expected_status": plan.probe.expected_status,
            "timeout": plan.probe.timeout,
            "interval": plan.probe.interval,
        },
        "peer_checked": plan.peer_checked,
        "stop": _stop(plan.stop),
        "slot_policy": plan.slot_policy,
        "dialect": plan.dialect,
        "engine_paths": {capability.value: path for capability, path in sorted(plan.engine_paths.items())},
        "downsize_endpoint": plan.downsize_endpoint,
        "options": dict(plan.options),
        "overrides": dict(plan.overrides),
        "values": {
            name: {"value": resolved.value, "from": resolved.origin} for name, resolved in plan.values.items()
        },
        "digest": plan.digest,
    }


def _container(spec: ProcessSpec | ContainerLaunch) -> JsonValue:
    return cast(JsonValue, as_json(spec.container)) if isinstance(spec, ContainerLaunch) else None


def _stop(stop: StopCommand | ContainerStop | None) -> JsonValue:
    match stop:
        case None:
            return None
        case StopCommand(argv=argv):
            return [str(template) for template in argv]
        case ContainerStop():
            return cast(JsonValue, as_json(stop))
