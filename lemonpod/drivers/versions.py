"""What an engine has to be new enough for: an older one takes the word, and ignores it or misreads it.

Only what its older versions are silent about. Where they complain, their complaint is the better one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from lemonpod.launch.container import ContainerSpec, Runtime

Version: TypeAlias = tuple[int, ...]

UNKNOWN: Final[Version] = ()
"""Older than every version."""

_NUMBERS: Final = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_HOST_GATEWAY: Final = ":host-gateway"


@dataclass(frozen=True, slots=True)
class Need:
    """A flag and the first version that does what it says."""

    flag: str
    version: Version
    asked: Callable[[ContainerSpec], bool]


def version_of(text: str) -> Version:
    """`5.4.2-dev` is (5, 4, 2); what begins with no number is UNKNOWN."""
    found = _NUMBERS.match(text)
    return tuple(int(part) for part in found[0].split(".")) if found else UNKNOWN


def written(version: Version) -> str:
    return ".".join(map(str, version)) or "unknown"


def unmet(spec: ContainerSpec, here: Version) -> Need | None:
    """The first thing that `spec` asks for and the engine's version, `here`, is too old for."""
    return next((need for need in _NEEDS[spec.runtime] if here < need.version and need.asked(spec)), None)


def _is_renamed_beside_privileged(spec: ContainerSpec) -> bool:
    """A device under its own name is there anyway."""
    return spec.privileged and any(one.target not in (None, one.path) for one in spec.devices)


# Of docker its API's versions, of podman its own.
_NEEDS: Final = MappingProxyType(
    {
        Runtime.DOCKER: (
            Need("--annotation", (1, 43), lambda spec: bool(spec.annotations)),
            Need(
                "--health-start-interval",
                (1, 44),
                lambda spec: spec.healthcheck is not None and bool(spec.healthcheck.start_interval),
            ),
            Need(
                "--mount …,volume-subpath=…",
                (1, 45),
                lambda spec: any(word.startswith("subpath=") for one in spec.mounts for word in one.options),
            ),
        ),
        Runtime.PODMAN: (
            Need("--group-entry", (4, 4), lambda spec: spec.group_entry is not None),
            Need(
                "--add-host …:host-gateway",
                (4, 7),
                lambda spec: any(host.endswith(_HOST_GATEWAY) for host in spec.extra_hosts),
            ),
            Need("--device PATH:ANOTHER beside --privileged", (5, 2), _is_renamed_beside_privileged),
        ),
    }
)
