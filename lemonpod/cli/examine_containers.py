"""Whether this machine has what a container is to get: devices, mounts, limits, its image."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final, TypeAlias
from urllib.parse import quote

from lemonpod.cli.check import Check
from lemonpod.cli.examine_engines import Engine, Machine
from lemonpod.drivers.address import Address
from lemonpod.drivers.ask import ask
from lemonpod.errors import RuntimeUnavailableError
from lemonpod.host.cdi import FOLDERS, cdi_devices
from lemonpod.host.devices import DeviceNode, device_nodes, needed
from lemonpod.host.user import User
from lemonpod.launch.container import ContainerSpec, PullPolicy, Runtime

_CDI_GENERATORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nvidia.com": "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
        "amd.com": "sudo amd-ctk cdi generate --output=/etc/cdi/amd.json",
    }
)
_LIMITS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "memory": ("memory", "memory_reservation", "memory_swap"),
        "cpu": ("nano_cpus", "cpu_quota", "cpu_period", "cpu_shares"),
        "cpuset": ("cpuset_cpus", "cpuset_mems"),
        "pids": ("pids_limit",),
        "io": ("blkio_weight", "blkio_weight_devices", "read_bps", "read_iops", "write_bps", "write_iops"),
    }
)
_NO_LIMIT: Final = (None, 0, -1, "", ())
_DELEGATE: Final = (
    "sudo mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu cpuset io memory "
    "pids\\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload, "
    "then log in again"
)
_VERSION_2: Final = "boot with systemd.unified_cgroup_hierarchy=1, or take the limit out of the manifest"
_RELABELS: Final = frozenset({"z", "Z"})
_KEEP_GROUPS: Final = "add '--group-add', 'keep-groups' to the manifest's args"
_CRUN: Final = "crun"
_NVIDIA_HOOK: Final = "nvidia-container-runtime-hook"

Findings: TypeAlias = Iterator[tuple[str, str]]


def container_checks(subject: str, spec: ContainerSpec, engine: Engine, machine: Machine) -> Iterator[Check]:
    """Everything that keeps `spec` from running by `engine`, and whether its image is there."""
    if engine.local:
        for look in _LOOKS:
            for found, fix in look(spec, engine, machine):
                yield Check(name=subject, ok=False, found=found, fix=fix)
    if engine.address is not None and "{" not in spec.image:
        yield _image(subject, spec, engine.runtime, engine.address)


def _devices(spec: ContainerSpec, engine: Engine, machine: Machine) -> Findings:
    """Each node that is handed over: an engine of root opens it itself, a rootless one as its user."""
    for device in spec.devices:
        if device.is_cdi:
            continue
        try:
            nodes = device_nodes(device.path, machine.root)
        except FileNotFoundError:
            yield f"{device.path} does not exist", _missing_device(device.path)
            continue
        except OSError as error:
            yield f"{device.path}: {error.strerror}", f"ls -l {shlex.quote(device.path)}"
            continue
        if not nodes:
            yield f"{device.path} is no device and holds none", "correct '--device' in the manifest"
        if engine.rootless:
            for node in needed(nodes):
                yield from device_access(node, spec, engine.runtime, machine.user)


def _missing_device(path: str) -> str:
    if path.startswith("/dev/nvidia"):
        return "sudo modprobe nvidia-uvm, or install NVIDIA's driver"
    if path in {"/dev/kfd", "/dev/dri"} or path.startswith("/dev/dri/"):
        return "sudo modprobe amdgpu (for other GPUs their driver), or register with --option device=cpu"
    return "load the driver that makes it, or correct '--device' in the manifest"


def device_access(node: DeviceNode, spec: ContainerSpec, runtime: Runtime, user: User) -> Findings:
    """What keeps a container of `user`'s rootless engine from opening a node."""
    if node.may_open(user.without_groups()):
        return
    if node.may_open(user):
        if spec.keep_groups:
            return
        reason = f"{node}: a rootless container loses the group that opens it to {user.name}"
        yield reason, _KEEP_GROUPS if runtime is Runtime.PODMAN else _grant(node, user)
        return
    fix = _grant(node, user)
    if node.group is not None:
        fix = f"sudo usermod -aG {node.group} {shlex.quote(user.name)}, then log in again"
        if runtime is Runtime.PODMAN and not spec.keep_groups:
            fix += f", and {_KEEP_GROUPS}"
    yield f"{node} may not be opened by {user.name}", fix


def _grant(node: DeviceNode, user: User) -> str:
    grant = shlex.join(["sudo", "setfacl", "-m", f"u:{user.name}:rw", node.path])
    return f"{grant} (until the next boot; a udev rule keeps it)"


def _cdi(spec: ContainerSpec, _: Engine, machine: Machine) -> Findings:
    asked = [device.path for device in spec.devices if device.is_cdi]
    asked += [name for request in spec.device_requests if request.driver == "cdi" for name in request.ids]
    if not asked:
        return
    declared = cdi_devices(machine.root)
    for name in dict.fromkeys(asked):
        if name not in declared.names:
            vendor = name.partition("/")[0]
            fix = _CDI_GENERATORS.get(vendor, f"put the CDI spec of {vendor} into {FOLDERS[0]}")
            unread = f" ({'; '.join(declared.unreadable)})" if declared.unreadable else ""
            yield f"no CDI spec in {' or '.join(FOLDERS)} declares {name}{unread}", fix


def _gpus(spec: ContainerSpec, _: Engine, machine: Machine) -> Findings:
    """What `docker --gpus` asks of NVIDIA's hook, or from version 28 on of a CDI spec."""
    asks = any(request.driver in {"", "nvidia"} for request in spec.device_requests)
    if not asks or machine.program(_NVIDIA_HOOK):
        return
    if not any(name.startswith("nvidia.com/gpu=") for name in cdi_devices(machine.root).names):
        reason = f"'--gpus' is asked for, and neither {_NVIDIA_HOOK} nor a CDI spec of nvidia.com is there"
        yield reason, "sudo apt install nvidia-container-toolkit && sudo systemctl restart docker"


def _mounts(spec: ContainerSpec, engine: Engine, machine: Machine) -> Findings:
    """Each folder or file of this machine that is mounted."""
    made = {volume.source for volume in spec.volumes} if engine.runtime is Runtime.DOCKER else set()
    for source in dict.fromkeys(source for source, _ in _binds(spec)):
        try:
            os.stat(machine.root / source.lstrip("/"))
        except (FileNotFoundError, NotADirectoryError):
            then = "docker makes an empty folder of root there" if source in made else "it cannot be mounted"
            yield f"{source} does not exist: {then}", f"mkdir -p {shlex.quote(source)}, or correct the mount"
        except PermissionError:
            if engine.rootless:
                reason = f"{source} may not be looked at by {machine.user.name}, who runs the engine"
                yield reason, f"sudo setfacl -m u:{machine.user.name}:x {shlex.quote(_parent(source))}"
        except (OSError, ValueError) as error:
            yield f"{source}: {error}", "correct the mount in the manifest"


def _parent(source: str) -> str:
    """The folder that shuts a user out of `source`."""
    outside_in = (str(folder) for folder in reversed(PurePosixPath(source).parents))
    shut = (folder for folder in outside_in if not os.access(folder, os.X_OK, effective_ids=True))
    return next(shut, source)


def _binds(spec: ContainerSpec) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The places of the host that are mounted, with the options of each."""
    yield from (
        (volume.source, volume.options) for volume in spec.volumes if volume.source and volume.of_host
    )
    yield from ((mount.source, mount.options) for mount in spec.mounts if mount.kind == "bind")


def _labels(spec: ContainerSpec, engine: Engine, _: Machine) -> Findings:
    if not engine.labels or spec.privileged:
        return
    if any(option.name == "label" and option.value == "disable" for option in spec.security):
        return
    bare = [source for source, options in _binds(spec) if not _RELABELS & set(options)]
    if bare:
        reason = f"SELinux keeps the container from {', '.join(bare)}, mounted without ':z' or ':Z'"
        yield reason, "add '--security-opt', 'label=disable' to the manifest's args, or ':z' to the mount"


def _limits(spec: ContainerSpec, engine: Engine, _: Machine) -> Findings:
    """Limits that nobody would keep: the engine refuses them, or leaves them out with a warning."""
    limits = engine.limits
    if limits is None:
        return
    lacking = [
        controller
        for controller, parts in _LIMITS.items()
        if controller not in limits.controllers
        and any(getattr(spec, part) not in _NO_LIMIT for part in parts)
    ]
    if not lacking:
        return
    whose = "a rootless engine" if engine.rootless else "the engine"
    reason = f"a limit on {', '.join(lacking)} is asked for, and {whose} has no such cgroup controller here"
    yield f"{reason} (cgroup v{limits.version})", _limits_fix(engine, limits.version, lacking)


def _limits_fix(engine: Engine, version: int, lacking: list[str]) -> str:
    if engine.rootless:
        return _VERSION_2 if version == 1 else _DELEGATE
    return f"boot with cgroup_enable={lacking[0]}, or take the limit out of the manifest"


def _rights(spec: ContainerSpec, engine: Engine, machine: Machine) -> Findings:
    if engine.runtime is not Runtime.PODMAN:
        return
    runtime = PurePosixPath(spec.oci_runtime or engine.oci_runtime or _only_runtime(machine) or _CRUN).name
    if spec.keep_groups and runtime != _CRUN:
        reason = f"'--group-add keep-groups' is known to crun alone, and {runtime} would run the container"
        yield reason, "sudo apt install crun, or sudo dnf install crun, and make it podman's runtime"
    if spec.userns is not None and spec.userns.mode == "keep-id" and not engine.rootless:
        reason = "'--userns=keep-id' is for rootless podman, and this one is root's"
        yield reason, "run lemonpod as a user, or take '--userns' out of the manifest"


def _only_runtime(machine: Machine) -> str | None:
    """The runtime that podman would take, where it was not asked: crun, if it is there."""
    return next((name for name in (_CRUN, "runc") if machine.program(name)), None)


def _image(subject: str, spec: ContainerSpec, runtime: Runtime, address: Address) -> Check:
    image = quote(spec.image, safe="/:@")
    libpod = f"/v4.0.0/libpod/images/{image}/exists"
    try:
        status = ask(address, libpod if runtime is Runtime.PODMAN else f"/images/{image}/json").status
    except RuntimeUnavailableError as error:
        return Check(name=subject, ok=False, found=error.message, fix=error.hint)
    if status < 300:
        return Check(name=subject, ok=True, found=f"{runtime} has {spec.image}")
    if status != 404:
        return Check(name=subject, ok=True, found=f"{runtime} does not say whether it has {spec.image}")
    if spec.pull is PullPolicy.NEVER:
        found = f"{runtime} does not have {spec.image}, and '--pull=never' forbids to fetch it"
        return Check(name=subject, ok=False, found=found, fix=shlex.join([runtime, "pull", spec.image]))
    found = f"{runtime} does not have {spec.image} yet: the first load pulls it"
    return Check(name=subject, ok=True, found=found)


_LOOKS: Final[tuple[Callable[[ContainerSpec, Engine, Machine], Findings], ...]] = (
    _devices,
    _cdi,
    _gpus,
    _mounts,
    _labels,
    _limits,
    _rights,
)
