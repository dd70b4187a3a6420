"""What a container is to be, exactly: the value that a `run` or `create` of podman or docker asks for.

Sizes are bytes, durations nanoseconds, paths of the host absolute. A field at its default was not asked for,
so that what an engine does by default stays the engine's. Where the two runtimes have words of their own, as
for the options of a mount, a spec keeps those of its runtime.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

_CDI_NAME: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9_-]*=[A-Za-z0-9][A-Za-z0-9._:-]*"
)


class Runtime(StrEnum):
    """Whose command line it is, and so whose API it is said to."""

    PODMAN = "podman"
    DOCKER = "docker"


class PullPolicy(StrEnum):
    ALWAYS = "always"
    MISSING = "missing"
    NEVER = "never"
    NEWER = "newer"


class Stream(StrEnum):
    STDIN = "stdin"
    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable of the environment; without a value it is taken out of what the image sets."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Of `--volume`: `source` is an absolute path, or a volume's name, or None for one without a name."""

    source: str | None
    target: str
    options: tuple[str, ...] = ()

    @property
    def of_host(self) -> bool:
        """Whether a path of the host is mounted, and not a volume that the engine keeps."""
        return self.source is not None and self.source.startswith("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """Of `--mount`; `options` are `word` or `word=value`, in their order."""

    kind: str
    source: str
    target: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMapping:
    """`length` neighbouring ports. `host_port` None is any; with `host_last` any up to that one."""

    host_ip: str = ""
    host_port: int | None = None
    host_last: int | None = None
    container_port: int
    length: int = 1
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A device node or folder of the host, or all that a CDI name stands for."""

    path: str
    target: str | None = None
    permissions: str | None = None

    @property
    def is_cdi(self) -> bool:
        return is_cdi_name(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """What `docker --gpus` asks of a device driver; `count` -1 is all."""

    driver: str = ""
    count: int = 0
    ids: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ("gpu",)
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SecurityOption:
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Ulimit:
    """-1 is without limit."""

    name: str
    soft: int
    hard: int


@dataclass(frozen=True, slots=True)
class DeviceRate:
    """A weight or a rate of one block device."""

    path: str
    value: int


@dataclass(frozen=True, slots=True)
class Namespace:
    """Which namespace to use; `value` is a container or a path, or how to map users."""

    mode: str
    value: str | None = None

    def __str__(self) -> str:
        return self.mode if self.value is None else f"{self.mode}:{self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """One network to join, and as whom."""

    name: str
    aliases: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    mac: str | None = None
    interface: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthcheck:
    """None leaves the image's; a test of `NONE` is no check at all."""

    test: tuple[str, ...] | None = None
    interval: int | None = None
    timeout: int | None = None
    start_period: int | None = None
    start_interval: int | None = None
    retries: int | None = None


@dataclass(frozen=True, slots=True)
class Restart:
    policy: str
    retries: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """None leaves it to the engine."""

    os: str | None = None
    arch: str | None = None
    variant: str | None = None

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.arch, self.variant) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """One container, whole: equal specs make equal containers."""

    runtime: Runtime
    image: str
    command: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] | None = None
    name: str | None = None
    platform: Platform | None = None

    # Before and after its life, which is up to whoever runs it and not to the engine.
    pull: PullPolicy = PullPolicy.MISSING
    remove: bool = False
    replace: bool = False
    attached: frozenset[Stream] = frozenset()

    # What the process in it sees.
    env: tuple[Variable, ...] = ()
    unset_env: tuple[str, ...] = ()
    unset_all_env: bool = False
    http_proxy: bool = True
    user: str | None = None
    workdir: str | None = None
    hostname: str | None = None
    domainname: str | None = None
    tty: bool = False
    stdin: bool = False
    init: bool | None = None
    init_path: str | None = None
    stop_signal: str | None = None
    stop_timeout: int | None = None
    timeout: int | None = None
    umask: str | None = None
    timezone: str | None = None
    passwd: bool = True
    passwd_entry: str | None = None
    group_entry: str | None = None
    systemd: str | None = None
    sdnotify: str | None = None
    healthcheck: Healthcheck | None = None
    restart: Restart | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    # Files and devices.
    volumes: tuple[Volume, ...] = ()
    mounts: tuple[Mount, ...] = ()
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    volumes_from: tuple[str, ...] = ()
    volume_driver: str | None = None
    image_volumes: str | None = None
    read_only: bool = False
    read_only_tmpfs: bool = True
    devices: tuple[Device, ...] = ()
    device_requests: tuple[DeviceRequest, ...] = ()
    device_cgroup_rules: tuple[str, ...] = ()
    storage: Mapping[str, str] = field(default_factory=dict)

    # Networks.
    network_mode: Namespace | None = None
    network_options: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()
    ports: tuple[PortMapping, ...] = ()
    publish_all: bool = False
    exposed: tuple[PortMapping, ...] = ()
    dns: tuple[str, ...] = ()
    dns_search: tuple[str, ...] = ()
    dns_options: tuple[str, ...] = ()
    extra_hosts: tuple[str, ...] = ()
    no_hosts: bool = False

    # Rights and namespaces.
    privileged: bool = False
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    security: tuple[SecurityOption, ...] = ()
    groups: tuple[str, ...] = ()
    keep_groups: bool = False
    userns: Namespace | None = None
    ipc: Namespace | None = None
    pid: Namespace | None = None
    uts: Namespace | None = None
    cgroupns: Namespace | None = None
    cgroup_parent: str | None = None
    cgroups_mode: str | None = None
    oci_runtime: str | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)

    # Limits.
    memory: int | None = None
    memory_reservation: int | None = None
    memory_swap: int | None = None
    memory_swappiness: int | None = None
    oom_kill_disable: bool = False
    oom_score_adj: int | None = None
    shm_size: int | None = None
    nano_cpus: int | None = None
    cpu_period: int | None = None
    cpu_quota: int | None = None
    cpu_rt_period: int | None = None
    cpu_rt_runtime: int | None = None
    cpu_shares: int | None = None
    cpuset_cpus: str | None = None
    cpuset_mems: str | None = None
    pids_limit: int | None = None
    ulimits: tuple[Ulimit, ...] = ()
    blkio_weight: int | None = None
    blkio_weight_devices: tuple[DeviceRate, ...] = ()
    read_bps: tuple[DeviceRate, ...] = ()
    read_iops: tuple[DeviceRate, ...] = ()
    write_bps: tuple[DeviceRate, ...] = ()
    write_iops: tuple[DeviceRate, ...] = ()
    log_driver: str | None = None
    log_options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("labels", "annotations", "tmpfs", "storage", "sysctls", "log_options"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


def is_cdi_name(text: str) -> bool:
    """Whether `text` names devices as the Container Device Interface does: `vendor/class=name`."""
    return _CDI_NAME.fullmatch(text) is not None


def as_json(value: Any) -> Any:
    """A spec, or a value in one, as JSON types, without what was not asked for."""
    if isinstance(value, Mapping):
        return {str(key): as_json(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [as_json(one) for one in value]
    if isinstance(value, frozenset):
        return sorted(as_json(one) for one in value)
    if not hasattr(type(value), "__dataclass_fields__"):
        return value
    shown = {name: getattr(value, name) for name in type(value).__dataclass_fields__}
    return {name: as_json(one) for name, one in shown.items() if _asked_for(value, name, one)}


def _asked_for(owner: Any, name: str, value: object) -> bool:
    declared = type(owner).__dataclass_fields__[name]
    if isinstance(value, Mapping):
        return bool(value)
    return not isinstance(owner, ContainerSpec) or bool(value != declared.default)
