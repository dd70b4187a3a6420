"""What engines pass over in silence, and from which version on they do what was said.

Only that: where an engine complains, its own complaint is the better one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from lemonpod.launch.container import ContainerSpec, Runtime

Version: TypeAlias = tuple[int, ...]

_NUMBERS: Final = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_PODMAN: Final = "Podman Engine"
_HOST_GATEWAY: Final = ":host-gateway"


class Engine(StrEnum):
    """Whose versions are told, in words for people."""

    DOCKER = "docker's API"
    PODMAN = "podman"
    IMITATION = "podman's imitation of docker"


@dataclass(frozen=True, slots=True)
class Here:
    """Who answers, and its version."""

    engine: Engine
    version: Version

    def __str__(self) -> str:
        return f"{self.engine} {_written(self.version)}"


@dataclass(frozen=True, slots=True)
class Need:
    """A flag and the first version that does what it says; None where none does."""

    flag: str
    version: Version | None
    asked: Callable[[ContainerSpec], bool]

    def hint(self, engine: Engine) -> str:
        """What to do where it is not met."""
        newer = f"{engine} {_written(self.version)} does what it says" if self.version else ""
        if engine is Engine.IMITATION:
            return "; ".join(filter(None, (newer, "podman itself may, with 'podman' for the command")))
        return f"{newer}; or do without it"


def here(runtime: Runtime, told: Mapping[str, Any]) -> Here:
    """Who answers for `runtime`, from its answer to `GET /version`."""
    parts = {part.get("Name") for part in told.get("Components") or ()}
    if runtime is Runtime.PODMAN or _PODMAN in parts:
        engine = Engine.PODMAN if runtime is Runtime.PODMAN else Engine.IMITATION
        return Here(engine, version_of(str(told.get("Version"))))
    return Here(Engine.DOCKER, version_of(str(told.get("ApiVersion"))))


def version_of(text: str) -> Version:
    """`5.4.2-dev` is (5, 4, 2); what begins with no number is older than everything."""
    found = _NUMBERS.match(text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def depends(spec: ContainerSpec) -> bool:
    """Whether it asks for anything that some version passes over."""
    tables = (_NEEDS[engine] for engine in _ANSWERING[spec.runtime])
    return any(need.asked(spec) for table in tables for need in table)


def unmet(spec: ContainerSpec, here: Here) -> Need | None:
    """The first thing that `spec` asks for and that would be passed over here."""
    return next(
        (
            need
            for need in _NEEDS[here.engine]
            if (need.version is None or here.version < need.version) and need.asked(spec)
        ),
        None,
    )


def _written(version: Version) -> str:
    return ".".join(map(str, version)) or "of an unknown version"


def _start_interval(spec: ContainerSpec) -> bool:
    return spec.healthcheck is not None and bool(spec.healthcheck.start_interval)


def _subpath(spec: ContainerSpec) -> bool:
    return any(word.startswith("subpath=") for one in spec.mounts for word in one.options)


def _host_gateway(spec: ContainerSpec) -> bool:
    return any(host.endswith(_HOST_GATEWAY) for host in spec.extra_hosts)


def _another_name(spec: ContainerSpec) -> bool:
    """Beside --privileged a device is there anyway, under its own name."""
    return spec.privileged and any(one.target not in (None, one.path) for one in spec.devices)


def _systempaths(spec: ContainerSpec) -> bool:
    return any(one.name == "systempaths" for one in spec.security)


_ANSWERING: Final = MappingProxyType(
    {Runtime.DOCKER: (Engine.DOCKER, Engine.IMITATION), Runtime.PODMAN: (Engine.PODMAN,)}
)
_NEEDS: Final[Mapping[Engine, tuple[Need, ...]]] = MappingProxyType(
    {
        Engine.DOCKER: (
            Need("--annotation", (1, 43), lambda spec: bool(spec.annotations)),
            Need("--health-start-interval", (1, 44), _start_interval),
            Need("--mount …,volume-subpath=…", (1, 45), _subpath),
        ),
        Engine.PODMAN: (
            Need("--group-entry", (4, 4), lambda spec: spec.group_entry is not None),
            Need("--add-host …:host-gateway", (4, 7), _host_gateway),
            Need("--device PATH:ANOTHER beside --privileged", (5, 2), _another_name),
        ),
        Engine.IMITATION: (
            Need("--gpus", None, lambda spec: bool(spec.device_requests)),
            Need("--device CDI-NAME", (5, 4), lambda spec: any(one.is_cdi for one in spec.devices)),
            Need("--device PATH:ANOTHER beside --privileged", (5, 2), _another_name),
            Need("--runtime", None, lambda spec: spec.oci_runtime is not None),
            Need("--security-opt systempaths=unconfined", None, _systempaths),
            Need("--add-host …:host-gateway", (4, 7), _host_gateway),
            Need("--annotation", (5, 4), lambda spec: bool(spec.annotations)),
            Need("--health-start-interval", None, _start_interval),
            Need("--mount …,volume-subpath=…", None, _subpath),
            Need("--volume-driver", None, lambda spec: spec.volume_driver is not None),
            Need("--domainname", None, lambda spec: spec.domainname is not None),
        ),
    }
)
