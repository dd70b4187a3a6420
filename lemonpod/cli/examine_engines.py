"""Whether the container engines that manifests ask for answer, and whether a rootless one can work here."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lemonpod.cli.check import Check
from lemonpod.drivers.address import USUAL_PLACE, Address, OnlyByCliAddressError, addresses
from lemonpod.drivers.ask import ask
from lemonpod.drivers.reach import Obstacle, Way, best_cure, reach
from lemonpod.drivers.runtimes import Place
from lemonpod.drivers.spawn import locate
from lemonpod.errors import RuntimeUnavailableError, SpawnError
from lemonpod.host.containers import (
    RANGE,
    Cgroups,
    cgroups,
    id_ranges,
    may_map_ids,
    selinux_enforces,
    user_namespaces,
)
from lemonpod.host.user import User
from lemonpod.launch.container import Runtime

OLDEST: Final[Mapping[Runtime, tuple[int, ...]]] = {Runtime.PODMAN: (4, 3), Runtime.DOCKER: (1, 41)}
"""Versions of the APIs: of podman its own, and of docker that of its version 20.10."""
PODMAN_INFO: Final = "/v4.0.0/libpod/info"
DOCKER_INFO: Final = "/info"  # of whatever version it speaks: newer daemons refuse the paths of old ones

_VERSION_HEADER: Final[Mapping[Runtime, str]] = {
    Runtime.PODMAN: "libpod-api-version",
    Runtime.DOCKER: "api-version",
}
_INSTALL: Final[Mapping[Runtime, str]] = {
    Runtime.PODMAN: "sudo apt install podman, or sudo dnf install podman",
    Runtime.DOCKER: "sudo apt install docker.io, or see https://docs.docker.com/engine/install",
}
_DOCKER_LIMITS: Final = (
    ("MemoryLimit", "memory"),
    ("CpuCfsQuota", "cpu"),
    ("CPUSet", "cpuset"),
    ("PidsLimit", "pids"),
)
_NEVER_SAID: Final = frozenset({"io"})  # docker has no field for it
_NAMES_OF_VERSION_2: Final = {"blkio": "io"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """This machine as far as containers depend on it, and who asks."""

    root: Path
    user: User
    environ: Mapping[str, str]
    home: Path
    path: str
    """Where programs are searched."""

    def program(self, name: str) -> str | None:
        """The program that a start would run."""
        try:
            return locate(name, path=self.path, cwd=None)
        except SpawnError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engine that a command line asks, as far as is known."""

    runtime: Runtime
    address: Address | None
    """Where it answers, if it does."""
    local: bool
    """Whether its containers get the devices and files of this machine."""
    rootless: bool
    oci_runtime: str | None
    labels: bool
    """Whether SELinux keeps its containers from files without their label."""
    limits: Cgroups | None


def find_engine(place: Place, machine: Machine) -> tuple[Engine, Check]:
    """The engine that a command line asks, and whether it answers."""
    runtime, said = place.runtime, place.connection
    name, user = runtime.value, machine.user
    try:
        found = addresses(runtime, said.url, said.context, machine.environ, home=machine.home, euid=user.uid)
    except OnlyByCliAddressError as error:
        left = f"{error.message}: it is left to {place.program}"
        return _unasked(runtime, machine, local=False), Check(name=name, ok=True, found=left)
    except RuntimeUnavailableError as error:
        check = Check(name=name, ok=False, found=error.message, fix=error.hint)
        return _unasked(runtime, machine, local=False), check
    obstacles: list[Obstacle] = []
    for address in found:
        obstacle = reach(address)
        if obstacle is None:
            return _answering(runtime, address, machine)
        obstacles.append(obstacle)
    local = any(address.socket for address in found)
    return _unasked(runtime, machine, local=local), _silent(place, found, obstacles, machine)


def rootless_checks(machine: Machine) -> Iterator[Check]:
    """What keeps podman from working for a user who is not root."""
    name, user = "podman, rootless", machine.user
    if setting := user_namespaces(machine.root):
        value = "28633" if setting.startswith("user.") else "1"
        fix = f"echo {setting}={value} | sudo tee /etc/sysctl.d/90-userns.conf && sudo sysctl --system"
        yield Check(name=name, ok=False, found=f"{setting} is 0: users may make no user namespace", fix=fix)
    for helper in ("newuidmap", "newgidmap"):
        program = machine.program(helper)
        if program is None:
            fix = "sudo apt install uidmap, or sudo dnf install shadow-utils"
            yield Check(name=name, ok=False, found=f"{helper} is not installed", fix=fix)
        elif not may_map_ids(Path(program)):
            found = f"{program} is neither setuid root nor has file capabilities"
            yield Check(name=name, ok=False, found=found, fix=f"sudo chmod u+s {shlex.quote(program)}")
    yield from _ranges(name, machine)
    yield from _runtime_folder(name, user, machine.environ)


def _ranges(name: str, machine: Machine) -> Iterator[Check]:
    user = machine.user
    found = {file: id_ranges(machine.root, file, user) for file in ("subuid", "subgid")}
    lacking = {file: ranges for file, ranges in found.items() if ranges and ranges.count < RANGE}
    if not lacking:
        return
    flags = " ".join(
        f"--add-{file}s {ranges.free}-{ranges.free + RANGE - 1}" for file, ranges in lacking.items()
    )
    has = " and ".join(f"{ranges.count or 'no'} ids in /etc/{file}" for file, ranges in lacking.items())
    yield Check(
        name=name,
        ok=False,
        found=f"{user.name} has {has}: images with files of several users cannot be unpacked",
        fix=f"sudo usermod {flags} {shlex.quote(user.name)} && podman system migrate",
    )


def _runtime_folder(name: str, user: User, environ: Mapping[str, str]) -> Iterator[Check]:
    folder = environ.get("XDG_RUNTIME_DIR")
    if not folder:
        return
    fix = f"sudo loginctl enable-linger {user.name}; export XDG_RUNTIME_DIR=/run/user/{user.uid}"
    try:
        owner = os.stat(folder).st_uid
    except OSError as error:
        found = f"XDG_RUNTIME_DIR is {folder}: {error.strerror}"
        yield Check(name=name, ok=False, found=found, fix=fix)
    else:
        if owner != user.uid:
            found = f"XDG_RUNTIME_DIR is {folder}, a folder of UID {owner} and not of {user.name}"
            yield Check(name=name, ok=False, found=found, fix=fix)


def _silent(place: Place, tried: tuple[Address, ...], obstacles: list[Obstacle], machine: Machine) -> Check:
    """No address can be connected to."""
    runtime, name = place.runtime, place.runtime.value
    why = "; ".join(f"{address}: {one.reason}" for address, one in zip(tried, obstacles, strict=True))
    usual = tried[0].origin == USUAL_PLACE
    program = machine.program(place.program)
    if usual and runtime is Runtime.PODMAN and program:
        found = f"no service listens, so lemonpod runs its own by {program} ({why})"
        return Check(name=name, ok=True, found=found)
    absent = all(obstacle.kind is Way.NOTHING_THERE for obstacle in obstacles)
    installed = program or machine.program("dockerd")
    fix = _INSTALL[runtime] if usual and absent and not installed else best_cure(obstacles)
    return Check(name=name, ok=False, found=f"does not answer: {why}", fix=fix)


def _unasked(runtime: Runtime, machine: Machine, *, local: bool) -> Engine:
    """What can be said of an engine without asking it: podman's is of who starts it, docker's of root."""
    rootless = runtime is Runtime.PODMAN and not machine.user.is_root
    return Engine(
        runtime=runtime,
        address=None,
        local=local,
        rootless=rootless,
        oci_runtime=None,
        labels=local and runtime is Runtime.PODMAN and selinux_enforces(machine.root),
        limits=cgroups(machine.root, machine.user if rootless else None) if local else None,
    )


def _answering(runtime: Runtime, address: Address, machine: Machine) -> tuple[Engine, Check]:
    """Somebody listens: is it the engine, and of a version that is spoken here?"""
    name, unasked = runtime.value, _unasked(runtime, machine, local=address.socket is not None)
    try:
        answer = ask(address, "/_ping")
        version = answer.headers.get(_VERSION_HEADER[runtime])
        if answer.status != 200 or version is None:
            found = f"what answers at {address} is not {name}"
            return unasked, Check(name=name, ok=False, found=found, fix=f"correct {address.origin}")
        if _numbers(version) < OLDEST[runtime]:
            least = ".".join(map(str, OLDEST[runtime]))
            found = f"{address} speaks version {version} of the API, and {least} is the oldest that is enough"
            return unasked, Check(name=name, ok=False, found=found, fix=f"update {name}")
        info = ask(address, PODMAN_INFO if runtime is Runtime.PODMAN else DOCKER_INFO).json()
    except RuntimeUnavailableError as error:
        return unasked, Check(name=name, ok=False, found=error.message, fix=error.hint)
    said = _said_by_podman if runtime is Runtime.PODMAN else _said_by_docker
    engine = replace(said(info, machine, unasked), address=address)
    kind = "rootless" if engine.rootless else "rootful"
    return engine, Check(name=name, ok=True, found=f"{address} answers: API {version}, {kind}")


def _said_by_podman(info: dict[str, Any], machine: Machine, unasked: Engine) -> Engine:
    host = _part(info, "host")
    security, controllers = _part(host, "security"), host.get("cgroupControllers")
    limits = unasked.limits
    if isinstance(controllers, list):
        names = (_NAMES_OF_VERSION_2.get(name, name) for name in map(str, controllers))
        limits = Cgroups(1 if host.get("cgroupVersion") == "v1" else 2, frozenset(names))
    return replace(
        unasked,
        rootless=bool(security.get("rootless", unasked.rootless)),
        oci_runtime=_part(host, "ociRuntime").get("name"),
        labels=bool(security.get("selinuxEnabled")) and selinux_enforces(machine.root),
        limits=limits,
    )


def _said_by_docker(info: dict[str, Any], machine: Machine, unasked: Engine) -> Engine:
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    limits = unasked.limits
    if "MemoryLimit" in info:
        kept = {controller for field, controller in _DOCKER_LIMITS if info.get(field)}
        limits = Cgroups(2 if info.get("CgroupVersion") == "2" else 1, _NEVER_SAID | kept)
    return replace(
        unasked,
        rootless=any(option.startswith("name=rootless") for option in options),
        oci_runtime=info.get("DefaultRuntime"),
        labels="name=selinux" in options and selinux_enforces(machine.root),
        limits=limits,
    )


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]{1,9}", version)[:3])
