"""A container's spec as podman's API wants it: the query and the body of `POST /libpod/containers/create`.

Not in it: `remove`, because the engine's removal loses the exit code and the last lines of the log, and the
pull, because a create does not pull. Both are for whoever runs the container. libpod decodes strictly: a
number as text is an error, and what it does not know is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from lemonpod.launch.argv.life import signal_number
from lemonpod.launch.container import (
    ContainerSpec,
    Device,
    Healthcheck,
    Mount,
    Namespace,
    Network,
    PortMapping,
    Restart,
    SecurityOption,
    Ulimit,
    Variable,
    Volume,
)

Json: TypeAlias = dict[str, Any]

KEEP_GROUPS: Final = MappingProxyType({"run.oci.keep_original_groups": "1"})
"""What `--group-add keep-groups` is to the runtime below podman; as a group it would be an unknown name."""

_UNLIMITED: Final = 2**64 - 1
"""-1 of an unsigned number; before 5.6 libpod cannot decode -1 itself."""
_REMARK: Final = "io.podman.annotations."
_INSPECTED: Final = frozenset({"label", "seccomp", "apparmor"})
_CPU_PERIOD: Final = 100_000
_NANO: Final = 10**9
_SWAP_FACTOR: Final = 2  # what podman's program adds where only --memory is given
_WITHOUT_OWN_SHM: Final = frozenset({"host", "none"})
_READ_ONLY_TMPFS: Final = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - in the container
_TMPFS_OPTIONS: Final = ("rw", "rprivate", "nosuid", "nodev", "tmpcopyup")

# What podman's program says where it was told nothing. Libpod would take some of it for off.
_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "cgroups_mode": "enabled",
        "image_volume_mode": "anonymous",
        "sdnotifyMode": "container",
        "seccomp_policy": "default",
        "stop_timeout": 10,
        "systemd": "true",
        "umask": "0022",
    }
)
_UNASKED: Final = MappingProxyType(
    {field.name: {} if field.default is MISSING else field.default for field in fields(ContainerSpec)}
)


def podman_create(spec: ContainerSpec) -> tuple[dict[str, str], Json]:
    """The query, which is empty, and the body that create `spec`."""
    body: Json = {**_DEFAULTS, "image": spec.image}
    body |= {"httpproxy": spec.http_proxy, "manage_password": spec.passwd}
    for field, key, write in _ROWS:
        value = getattr(spec, field)
        if value != _UNASKED[field]:
            body[key] = write(value)
    for part in (
        _platform,
        _mounts,
        _user_namespace,
        _network,
        _security,
        _annotations,
        _restart,
        _limits,
        _logging,
    ):
        body |= part(spec)
    if spec.ipc is not None and spec.ipc.mode in _WITHOUT_OWN_SHM:
        body.pop("shm_size", None)  # "cannot set shmsize when running in the {host } IPC Namespace"
    return {}, body


def _platform(spec: ContainerSpec) -> Json:
    if spec.platform is None:
        return {}
    named = spec.platform
    said = {"image_os": named.os, "image_arch": named.arch, "image_variant": named.variant}
    return {key: value for key, value in said.items() if value is not None}


def _mounts(spec: ContainerSpec) -> Json:
    """By what they are: a volume among the mounts is taken at create and fails at start."""
    binds = [_bind(volume) for volume in spec.volumes if volume.of_host and "O" not in volume.options]
    mounts = [*map(_mount, spec.mounts), *binds, *(_tmpfs(*one) for one in spec.tmpfs.items())]
    named = [_named(one.source, one.target, one.options) for one in spec.volumes if not one.of_host]
    named += [_named(one.source, one.target, one.options) for one in spec.mounts if one.kind == "volume"]
    said: Json = {
        "mounts": [mount for mount in mounts if mount["type"] in {"bind", "tmpfs"}],
        "volumes": named,
        "overlay_volumes": [
            {"source": one.source, "destination": one.target, "options": list(one.options)}
            for one in spec.volumes
            if one.of_host and "O" in one.options
        ],
        "image_volumes": [
            {"Source": one.source, "Destination": one.target, "ReadWrite": "rw" in one.options}
            for one in spec.mounts
            if one.kind == "image"
        ],
    }
    if spec.read_only and spec.read_only_tmpfs:
        taken = {mount["destination"] for mount in said["mounts"]} | {one["Dest"] for one in named}
        fresh = [target for target in _READ_ONLY_TMPFS if target not in taken]
        # For 4.x, which leaves them to its program; 5.x adds them by itself where they are not there.
        said["mounts"] += [_tmpfs(target, ",".join(_TMPFS_OPTIONS)) for target in fresh]
        said["read_write_tmpfs"] = True
    return {key: value for key, value in said.items() if value}


def _bind(volume: Volume) -> Json:
    return _with_options(
        {"destination": volume.target, "type": "bind", "source": volume.source}, volume.options
    )


def _mount(mount: Mount) -> Json:
    source = mount.source or mount.kind
    return _with_options({"destination": mount.target, "type": mount.kind, "source": source}, mount.options)


def _tmpfs(target: str, options: str) -> Json:
    said = {"destination": target, "type": "tmpfs", "source": "tmpfs"}
    return _with_options(said, options.split(",") if options else ())


def _with_options(mount: Json, options: Iterable[str]) -> Json:
    written = list(options)
    return {**mount, "options": written} if written else mount


def _named(name: str | None, target: str, options: Iterable[str]) -> Json:
    return {"Name": name or "", "Dest": target, "Options": list(options) or None, "IsAnonymous": False}


def _user_namespace(spec: ContainerSpec) -> Json:
    """keep-id and auto want it said that users are not those of the host."""
    if spec.userns is None:
        return {}
    said: Json = {"userns": _namespace(spec.userns)}
    if spec.userns.mode in {"keep-id", "auto"}:
        said["idmappings"] = {"HostUIDMapping": False, "HostGIDMapping": False}
    if spec.userns.mode == "auto":
        said["idmappings"]["AutoUserNs"] = True
    return said


def _network(spec: ContainerSpec) -> Json:
    said: Json = {}
    if spec.network_mode is not None:
        mode = spec.network_mode
        takes_options = mode.mode in {"slirp4netns", "pasta"} and mode.value is not None
        said["netns"] = {"nsmode": mode.mode} if takes_options else _namespace(mode)
        if takes_options and mode.value is not None:
            said["network_options"] = {mode.mode: mode.value.split(",")}
    if spec.networks:
        said["Networks"] = {one.name: _joined(one) for one in spec.networks}
    return said


def _joined(network: Network) -> Json:
    said = {
        "static_ips": list(network.ips),
        "static_mac": network.mac,
        "aliases": list(network.aliases),
    }
    return {**{key: value for key, value in said.items() if value}, "interface_name": network.interface or ""}


def _security(spec: ContainerSpec) -> Json:
    said: Json = {}
    for option in spec.security:
        key, write = _SECURITY[option.name]
        value = write(option)
        said[key] = [*said.get(key, ()), *value] if isinstance(value, list) else value
    return said


def _annotations(spec: ContainerSpec) -> Json:
    """An inspect tells of a security option what it finds here, as podman's program writes it."""
    remarks: dict[str, str] = {}
    for option in spec.security:
        key = f"{_REMARK}{option.name}"
        if option.name == "label" and key in remarks:
            remarks[key] += f",label={option.value}"
        elif option.name in _INSPECTED and option.value is not None:
            remarks[key] = option.value
    annotations = {**remarks, **spec.annotations, **(KEEP_GROUPS if spec.keep_groups else {})}
    return {"annotations": annotations} if annotations else {}


def _restart(spec: ContainerSpec) -> Json:
    restart: Restart | None = spec.restart
    if restart is None:
        return {}
    tries = {} if restart.retries is None else {"restart_tries": restart.retries}
    return {"restart_policy": restart.policy, **tries}


def _limits(spec: ContainerSpec) -> Json:
    memory = {
        "limit": spec.memory or None,
        "reservation": spec.memory_reservation,
        "swap": _swap(spec),
        "swappiness": None if spec.memory_swappiness == -1 else spec.memory_swappiness,
        "disableOOMKiller": spec.oom_kill_disable or None,
    }
    cpu = {
        "shares": spec.cpu_shares,
        "quota": spec.cpu_quota,
        "period": spec.cpu_period,
        "realtimePeriod": spec.cpu_rt_period,
        "realtimeRuntime": spec.cpu_rt_runtime,
        "cpus": spec.cpuset_cpus,
        "mems": spec.cpuset_mems,
    }
    if spec.nano_cpus:
        cpu |= {"quota": spec.nano_cpus * _CPU_PERIOD // _NANO, "period": _CPU_PERIOD}
    pids = 0 if spec.pids_limit == -1 else spec.pids_limit
    groups: dict[str, Json] = {
        "memory": memory,
        "cpu": cpu,
        "pids": {"limit": pids},
        "blockIO": {"weight": spec.blkio_weight},
    }
    said = {
        name: {key: one for key, one in group.items() if one is not None} for name, group in groups.items()
    }
    said = {name: group for name, group in said.items() if group}
    return {"resource_limits": said} if said else {}


def _swap(spec: ContainerSpec) -> int | None:
    if spec.memory_swap is None:
        return spec.memory * _SWAP_FACTOR if spec.memory else None
    return None if spec.memory_swap == -1 else spec.memory_swap


def _logging(spec: ContainerSpec) -> Json:
    if spec.log_driver is None and not spec.log_options:
        return {}
    options = dict(spec.log_options)
    said: Json = {"driver": spec.log_driver} if spec.log_driver is not None else {}
    if path := options.pop("path", None):
        said["path"] = path
    if size := options.pop("max-size", None):
        said["size"] = int(size)
    return {"log_configuration": {**said, **({"options": options} if options else {})}}


def _namespace(namespace: Namespace) -> Json:
    value = {} if namespace.value is None else {"value": namespace.value}
    return {"nsmode": namespace.mode, **value}


def _environment(variables: Iterable[Variable]) -> dict[str, str]:
    return {variable.name: variable.value for variable in variables if variable.value is not None}


def _devices(devices: Iterable[Device]) -> list[Json]:
    """As they were written: the engine splits them, and looks CDI names up."""
    parts = [(device.path, device.target, device.permissions) for device in devices]
    return [{"path": ":".join(part for part in of_one if part is not None)} for of_one in parts]


def _ports(ports: Iterable[PortMapping]) -> list[Json]:
    return [
        {
            "host_ip": port.host_ip,
            "container_port": port.container_port,
            "host_port": port.host_port or 0,
            "range": port.length,
            "protocol": port.protocol,
        }
        for port in ports
    ]


def _exposed(ports: Iterable[PortMapping]) -> dict[str, str]:
    return {
        str(port.container_port + offset): port.protocol for port in ports for offset in range(port.length)
    }


def _healthcheck(check: Healthcheck) -> Json:
    said = {
        "Test": check.test and list(check.test),
        "StartPeriod": check.start_period or None,
        "Interval": check.interval or None,
        "Timeout": check.timeout,
        "Retries": check.retries,
    }
    return {key: value for key, value in said.items() if value is not None}


def _ulimits(limits: Iterable[Ulimit]) -> list[Json]:
    return [
        {"type": limit.name, "soft": _unsigned(limit.soft), "hard": _unsigned(limit.hard)} for limit in limits
    ]


def _unsigned(limit: int) -> int:
    return _UNLIMITED if limit == -1 else limit


def _paths(option: SecurityOption) -> list[str]:
    return (option.value or "").split(":")


_SECURITY: Final[Mapping[str, tuple[str, Callable[[SecurityOption], object]]]] = MappingProxyType(
    {
        "label": ("selinux_opts", lambda option: [option.value]),
        "apparmor": ("apparmor_profile", lambda option: option.value),
        "seccomp": ("seccomp_profile_path", lambda option: option.value),
        "no-new-privileges": ("no_new_privileges", lambda option: option.value != "false"),
        "mask": ("mask", _paths),
        "unmask": ("unmask", lambda option: [option.value]),
        "systempaths": ("unmask", lambda _: ["ALL"]),
        "proc-opts": ("procfs_opts", lambda option: (option.value or "").split(",")),
    }
)

# Field of the spec, key in the body, and how the value is written. What is not asked for is not sent.
_ROWS: Final[tuple[tuple[str, str, Callable[[Any], object]], ...]] = (
    ("name", "name", str),
    ("command", "command", list),
    ("entrypoint", "entrypoint", list),
    ("env", "env", _environment),
    ("unset_env", "unsetenv", list),
    ("unset_all_env", "unsetenvall", bool),
    ("user", "user", str),
    ("workdir", "work_dir", str),
    ("hostname", "hostname", str),
    ("tty", "terminal", bool),
    ("stdin", "stdin", bool),
    ("init", "init", bool),
    ("init_path", "init_path", str),
    ("stop_signal", "stop_signal", signal_number),
    ("stop_timeout", "stop_timeout", int),
    ("timeout", "timeout", int),
    ("umask", "umask", str),
    ("timezone", "timezone", str),
    ("passwd_entry", "passwd_entry", str),
    ("group_entry", "group_entry", str),
    ("systemd", "systemd", str),
    ("sdnotify", "sdnotifyMode", str),
    ("healthcheck", "healthconfig", _healthcheck),
    ("labels", "labels", dict),
    ("volumes_from", "volumes_from", list),
    ("image_volumes", "image_volume_mode", lambda mode: "anonymous" if mode == "bind" else mode),
    ("read_only", "read_only_filesystem", bool),
    ("devices", "devices", _devices),
    ("ports", "portmappings", _ports),
    ("publish_all", "publish_image_ports", bool),
    ("exposed", "expose", _exposed),
    ("dns", "dns_server", list),
    ("dns_search", "dns_search", list),
    ("dns_options", "dns_option", list),
    ("extra_hosts", "hostadd", list),
    ("no_hosts", "use_image_hosts", bool),
    ("privileged", "privileged", bool),
    ("cap_add", "cap_add", list),
    ("cap_drop", "cap_drop", list),
    ("groups", "groups", list),
    ("ipc", "ipcns", _namespace),
    ("pid", "pidns", _namespace),
    ("uts", "utsns", _namespace),
    ("cgroupns", "cgroupns", _namespace),
    ("cgroup_parent", "cgroup_parent", str),
    ("cgroups_mode", "cgroups_mode", str),
    ("sysctls", "sysctl", dict),
    ("oom_score_adj", "oom_score_adj", int),
    ("shm_size", "shm_size", int),
    ("ulimits", "r_limits", _ulimits),
)
