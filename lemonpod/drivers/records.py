"""What podman and docker report of containers and images, as our values. Both say nearly the same.

Reports differ by version in what they leave out, so nothing but the id has to be there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from lemonpod.drivers.runtime import ContainerInfo, ImageInfo, Listed, Published, Usage
from lemonpod.launch.container import Platform

Json: TypeAlias = Mapping[str, Any]

_RUNNING: Final = frozenset({"running", "paused", "stopping"})
"""The words of a state in which there is a process. Docker's `restarting` is the time between two."""
_STOP_TIMEOUT: Final = 10  # in both, where a container was given none
_STARTED_TWICE: Final = re.compile(r"container \w+(?:: container)? is running")
_NANO: Final = 10**9
_REGAINED: Final = ("inactive_file", "total_inactive_file")  # in cgroups v2, and in v1
_ANYWHERE: Final = "0.0.0.0"  # noqa: S104 - as docker writes what podman leaves empty
_ARCHITECTURES: Final = MappingProxyType({"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64"})

UNKNOWN_USAGE: Final = Usage(cpu_seconds=None, memory_bytes=None, processes=None)


def container_info(record: Json) -> ContainerInfo:
    """Of `GET /containers/{id}/json`."""
    state: Json = record.get("State") or {}
    status = str(state.get("Status") or "")
    running = status in _RUNNING
    finished = _time(state.get("FinishedAt"))
    return ContainerInfo(
        id=record["Id"],
        name=str(record.get("Name") or "").removeprefix("/"),
        labels=_labels((record.get("Config") or {}).get("Labels")),
        status=status,
        running=running,
        pid=(state.get("Pid") or None) if running else None,
        exit_code=None if running or finished is None else state.get("ExitCode"),
        oom_killed=bool(state.get("OOMKilled")),
        error=_error(str(state.get("Error") or "")),
        started_at=_time(state.get("StartedAt")),
        finished_at=None if running else finished,
        host_network=(record.get("HostConfig") or {}).get("NetworkMode") == "host",
        published=_published((record.get("NetworkSettings") or {}).get("Ports") or {}),
    )


def is_named(record: Json, name: str) -> bool:
    """Whether it is the one that was asked for: engines take the beginning of an id, too, for the whole."""
    return name in (record["Id"], str(record.get("Name") or "").removeprefix("/"))


def has_terminal(record: Json) -> bool:
    return bool((record.get("Config") or {}).get("Tty"))


def stop_timeout(record: Json) -> int:
    """Seconds between its stop signal and KILL."""
    said = (record.get("Config") or {}).get("StopTimeout")
    return _STOP_TIMEOUT if said is None else int(said)


def listed(record: Json) -> Listed:
    """Of an entry of `GET /containers/json`."""
    names = [str(name).removeprefix("/") for name in record.get("Names") or ()]
    own = [name for name in names if "/" not in name]  # with one, it is a link of docker's
    return Listed(
        id=record["Id"],
        name=next(iter(own), ""),
        labels=_labels(record.get("Labels")),
        running=str(record.get("State") or "").lower() in _RUNNING,
    )


def image_info(record: Json) -> ImageInfo:
    """Of `GET /images/{name}/json`."""
    return ImageInfo(
        id=str(record["Id"]).removeprefix("sha256:"),
        digests=tuple(record.get("RepoDigests") or ()),
        platform=Platform(
            os=record.get("Os") or None,
            arch=record.get("Architecture") or None,
            variant=record.get("Variant") or None,
        ),
    )


def podman_usage(record: Json) -> Usage:
    """Of `GET /libpod/containers/stats` of one container."""
    measured: Json = next(iter(record.get("Stats") or ()), {})
    return _usage(measured.get("PIDs"), measured.get("CPUNano"), measured.get("MemUsage"))


def docker_usage(record: Json) -> Usage:
    """Of `GET /containers/{id}/stats`; without the pages that would be given back, as docker shows it."""
    memory: Json = record.get("memory_stats") or {}
    details: Json = memory.get("stats") or {}
    regained = next((details[name] for name in _REGAINED if name in details), 0)
    cpu = ((record.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage")
    processes = (record.get("pids_stats") or {}).get("current")
    return _usage(processes, cpu, max(0, (memory.get("usage") or 0) - regained))


def is_for(image: Platform, wanted: Platform) -> bool:
    """Whether an image of one platform is what was asked for; what is not said on either side may be that."""
    return all(
        one is None or other is None or one == other
        for one, other in (
            (image.os, wanted.os),
            (_architecture(image.arch), _architecture(wanted.arch)),
            (image.variant, wanted.variant),
        )
    )


def _architecture(name: str | None) -> str | None:
    return None if name is None else _ARCHITECTURES.get(name, name)


def _usage(processes: int | None, cpu_nanoseconds: int | None, memory: int | None) -> Usage:
    """Where there is no process both engines say zero to all, and so they do where they cannot measure."""
    return Usage(
        cpu_seconds=cpu_nanoseconds / _NANO if cpu_nanoseconds else None,
        memory_bytes=memory or None,
        processes=processes or None,
    )


def _error(text: str) -> str:
    """Podman 5 keeps its answer to a second start as well."""
    return "" if _STARTED_TWICE.fullmatch(text) else text


def _labels(found: Json | None) -> Mapping[str, str]:
    return MappingProxyType(dict(found or {}))


def _time(text: str | None) -> float | None:
    """Seconds since the epoch; the year 1 is how both say never."""
    try:
        when = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    seconds = math.nan if when.year == 1 else when.timestamp()
    return seconds if seconds > 0 else None


def _published(ports: Mapping[str, list[Mapping[str, str]] | None]) -> tuple[Published, ...]:
    """The TCP ones: an engine's API is nothing else."""
    return tuple(
        Published(binding.get("HostIp") or _ANYWHERE, int(binding["HostPort"]))
        for port, bindings in ports.items()
        if port.endswith("/tcp")
        for binding in bindings or ()
        if binding.get("HostPort")
    )
