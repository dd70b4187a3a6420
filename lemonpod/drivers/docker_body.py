"""A container's spec as docker's Engine API wants it: the query and the body of `POST /containers/create`.

Not in it: `AutoRemove`, because the daemon's removal loses the exit code and the last lines of the log, and
the pull, because a create does not pull. Both are for whoever runs the container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from lemonpod.launch.container import (
    ContainerSpec,
    Device,
    DeviceRate,
    DeviceRequest,
    Healthcheck,
    Mount,
    Network,
    PortMapping,
    Restart,
    SecurityOption,
    Stream,
    Ulimit,
    Variable,
)

Json: TypeAlias = dict[str, Any]

_HOST: Final = "HostConfig"
_ALL_PERMISSIONS: Final = "rwm"
_CDI_DRIVER: Final = "cdi"

# Where an option of a mount goes: the object inside the mount, its key, and how its value is written.
_MOUNT_OPTIONS: Final[Mapping[str, tuple[str, str, Callable[[str], object]]]] = MappingProxyType(
    {
        "propagation": ("BindOptions", "Propagation", str),
        "non-recursive": ("BindOptions", "NonRecursive", bool),
        "no-copy": ("VolumeOptions", "NoCopy", bool),
        "subpath": ("VolumeOptions", "Subpath", str),
        "size": ("TmpfsOptions", "SizeBytes", int),
        "mode": ("TmpfsOptions", "Mode", int),
    }
)


_UNASKED: Final = MappingProxyType(
    {field.name: {} if field.default is MISSING else field.default for field in fields(ContainerSpec)}
)
"""What the fields are where nothing was asked for; `--init=false` is something."""


def docker_create(spec: ContainerSpec) -> tuple[dict[str, str], Json]:
    """The query and the body that create `spec`."""
    query = {"name": spec.name, "platform": spec.platform and str(spec.platform)}
    body: Json = {"Image": spec.image}
    host: Json = {}
    for target, rows in ((body, _CONFIG), (host, _HOST_CONFIG)):
        for field, key, write in rows:
            value = getattr(spec, field)
            if value != _UNASKED[field]:
                target[key] = write(value)
    body |= _attachment(spec)
    body |= _volumes(spec)
    body |= _exposed(spec)
    host |= _security(spec.security)
    host |= _devices(spec)
    host |= _logging(spec)
    binds = [_bind(volume.source, volume.target, volume.options) for volume in spec.volumes if volume.source]
    if binds:
        host["Binds"] = binds
    if spec.networks:
        body["NetworkingConfig"] = {"EndpointsConfig": {one.name: _endpoint(one) for one in spec.networks}}
    return {key: value for key, value in query.items() if value}, {**body, _HOST: host}


def _entry(variable: Variable) -> str:
    """Without an equals sign the daemon takes the variable out of the image's."""
    return variable.name if variable.value is None else f"{variable.name}={variable.value}"


def _healthcheck(check: Healthcheck) -> Json:
    said = {
        "Test": check.test and list(check.test),
        "Interval": check.interval,
        "Timeout": check.timeout,
        "StartPeriod": check.start_period,
        "StartInterval": check.start_interval,
        "Retries": check.retries,
    }
    return {key: value for key, value in said.items() if value is not None}


def _attachment(spec: ContainerSpec) -> Json:
    attached = spec.attached
    said: Json = {
        "AttachStdin": Stream.STDIN in attached,
        "AttachStdout": Stream.STDOUT in attached,
        "AttachStderr": Stream.STDERR in attached,
    }
    if spec.stdin and Stream.STDIN in attached:
        said["StdinOnce"] = True
    return said


def _volumes(spec: ContainerSpec) -> Json:
    anonymous: Json = {volume.target: {} for volume in spec.volumes if volume.source is None}
    return {"Volumes": anonymous} if anonymous else {}


def _bind(source: str | None, target: str, options: Sequence[str]) -> str:
    return ":".join([source or "", target, *([",".join(options)] if options else [])])


def _exposed(spec: ContainerSpec) -> Json:
    """Docker wants what is published to be exposed as well."""
    exposed: Json = {_port(mapping, offset): {} for mapping, offset in _single((*spec.ports, *spec.exposed))}
    return {"ExposedPorts": exposed} if exposed else {}


def _port_bindings(ports: Iterable[PortMapping]) -> Json:
    bindings: dict[str, list[dict[str, str]]] = {}
    for mapping, offset in _single(ports):
        host = "" if mapping.host_port is None else str(mapping.host_port + offset)
        if mapping.host_last is not None:
            host = f"{mapping.host_port}-{mapping.host_last}"
        entry = {"HostIp": mapping.host_ip, "HostPort": host}
        bindings.setdefault(_port(mapping, offset), []).append(entry)
    return bindings


def _single(ports: Iterable[PortMapping]) -> Iterable[tuple[PortMapping, int]]:
    return ((mapping, offset) for mapping in ports for offset in range(mapping.length))


def _port(mapping: PortMapping, offset: int) -> str:
    return f"{mapping.container_port + offset}/{mapping.protocol or 'tcp'}"


def _security(options: Sequence[SecurityOption]) -> Json:
    said = [
        option.name if option.value is None else f"{option.name}={option.value}"
        for option in options
        if option.name != "systempaths"
    ]
    unmasked: Json = {"MaskedPaths": [], "ReadonlyPaths": []} if len(said) != len(options) else {}
    return {**({"SecurityOpt": said} if said else {}), **unmasked}


def _devices(spec: ContainerSpec) -> Json:
    """Nodes by their paths; CDI names together as one more request, as docker's program has them."""
    nodes = [_node(device) for device in spec.devices if not device.is_cdi]
    requests = [_request(request) for request in spec.device_requests]
    names = [device.path for device in spec.devices if device.is_cdi]
    if names:
        requests.append(
            {"Driver": _CDI_DRIVER, "Count": 0, "DeviceIDs": names, "Capabilities": None, "Options": None}
        )
    return {**({"Devices": nodes} if nodes else {}), **({"DeviceRequests": requests} if requests else {})}


def _node(device: Device) -> Json:
    return {
        "PathOnHost": device.path,
        "PathInContainer": device.target or device.path,
        "CgroupPermissions": device.permissions or _ALL_PERMISSIONS,
    }


def _request(request: DeviceRequest) -> Json:
    return {
        "Driver": request.driver,
        "Count": request.count,
        "DeviceIDs": list(request.ids) or None,
        "Capabilities": [list(request.capabilities)],
        "Options": dict(request.options),
    }


def _logging(spec: ContainerSpec) -> Json:
    if spec.log_driver is None and not spec.log_options:
        return {}
    return {"LogConfig": {"Type": spec.log_driver or "", "Config": dict(spec.log_options)}}


def _mounts(mounts: Iterable[Mount]) -> list[Json]:
    return [_mount(mount) for mount in mounts]


def _mount(mount: Mount) -> Json:
    said: Json = {"Type": mount.kind, "Target": mount.target}
    if mount.source:
        said["Source"] = mount.source
    for option in mount.options:
        name, equals, value = option.partition("=")
        match name:
            case "ro":
                said["ReadOnly"] = True
            case "consistency":
                said["Consistency"] = value
            case "driver":
                _driver(said)["Name"] = value
            case "option":
                key, _, setting = value.partition("=")
                _driver(said).setdefault("Options", {})[key] = setting
            case "label":
                key, _, setting = value.partition("=")
                said.setdefault("VolumeOptions", {}).setdefault("Labels", {})[key] = setting
            case _:
                section, key, write = _MOUNT_OPTIONS[name]
                said.setdefault(section, {})[key] = write(value if equals else "true")
    return said


def _driver(mount: Json) -> Json:
    driver: Json = mount.setdefault("VolumeOptions", {}).setdefault("DriverConfig", {})
    return driver


def _endpoint(network: Network) -> Json:
    said: Json = {}
    if network.aliases:
        said["Aliases"] = list(network.aliases)
    addresses = {("IPv6Address" if ":" in ip else "IPv4Address"): ip for ip in network.ips}
    if addresses:
        said["IPAMConfig"] = addresses
    return said


def _restart(restart: Restart) -> Json:
    return {"Name": restart.policy, "MaximumRetryCount": restart.retries or 0}


def _ulimits(limits: Iterable[Ulimit]) -> list[Json]:
    return [{"Name": limit.name, "Soft": limit.soft, "Hard": limit.hard} for limit in limits]


def _rates(rates: Iterable[DeviceRate]) -> list[Json]:
    return [{"Path": rate.path, "Rate": rate.value} for rate in rates]


def _weights(rates: Iterable[DeviceRate]) -> list[Json]:
    return [{"Path": rate.path, "Weight": rate.value} for rate in rates]


def _entries(variables: Iterable[Variable]) -> list[str]:
    return [_entry(variable) for variable in variables]


# Field of the spec, key in the body, and how the value is written. What is not asked for is not sent.
_Rows: TypeAlias = tuple[tuple[str, str, Callable[[Any], object]], ...]
_CONFIG: Final[_Rows] = (
    ("hostname", "Hostname", str),
    ("domainname", "Domainname", str),
    ("user", "User", str),
    ("tty", "Tty", bool),
    ("stdin", "OpenStdin", bool),
    ("env", "Env", _entries),
    ("command", "Cmd", list),
    ("entrypoint", "Entrypoint", list),
    ("workdir", "WorkingDir", str),
    ("labels", "Labels", dict),
    ("stop_signal", "StopSignal", str),
    ("stop_timeout", "StopTimeout", int),
    ("healthcheck", "Healthcheck", _healthcheck),
)
_HOST_CONFIG: Final[_Rows] = (
    ("network_mode", "NetworkMode", str),
    ("ports", "PortBindings", _port_bindings),
    ("publish_all", "PublishAllPorts", bool),
    ("restart", "RestartPolicy", _restart),
    ("init", "Init", bool),
    ("annotations", "Annotations", dict),
    ("mounts", "Mounts", _mounts),
    ("tmpfs", "Tmpfs", dict),
    ("volumes_from", "VolumesFrom", list),
    ("volume_driver", "VolumeDriver", str),
    ("read_only", "ReadonlyRootfs", bool),
    ("device_cgroup_rules", "DeviceCgroupRules", list),
    ("storage", "StorageOpt", dict),
    ("dns", "Dns", list),
    ("dns_search", "DnsSearch", list),
    ("dns_options", "DnsOptions", list),
    ("extra_hosts", "ExtraHosts", list),
    ("privileged", "Privileged", bool),
    ("cap_add", "CapAdd", list),
    ("cap_drop", "CapDrop", list),
    ("groups", "GroupAdd", list),
    ("userns", "UsernsMode", str),
    ("ipc", "IpcMode", str),
    ("pid", "PidMode", str),
    ("uts", "UTSMode", str),
    ("cgroupns", "CgroupnsMode", str),
    ("cgroup_parent", "CgroupParent", str),
    ("oci_runtime", "Runtime", str),
    ("sysctls", "Sysctls", dict),
    ("memory", "Memory", int),
    ("memory_reservation", "MemoryReservation", int),
    ("memory_swap", "MemorySwap", int),
    ("memory_swappiness", "MemorySwappiness", int),
    ("oom_kill_disable", "OomKillDisable", bool),
    ("oom_score_adj", "OomScoreAdj", int),
    ("shm_size", "ShmSize", int),
    ("nano_cpus", "NanoCpus", int),
    ("cpu_period", "CpuPeriod", int),
    ("cpu_quota", "CpuQuota", int),
    ("cpu_rt_period", "CpuRealtimePeriod", int),
    ("cpu_rt_runtime", "CpuRealtimeRuntime", int),
    ("cpu_shares", "CpuShares", int),
    ("cpuset_cpus", "CpusetCpus", str),
    ("cpuset_mems", "CpusetMems", str),
    ("pids_limit", "PidsLimit", int),
    ("ulimits", "Ulimits", _ulimits),
    ("blkio_weight", "BlkioWeight", int),
    ("blkio_weight_devices", "BlkioWeightDevice", _weights),
    ("read_bps", "BlkioDeviceReadBps", _rates),
    ("read_iops", "BlkioDeviceReadIOps", _rates),
    ("write_bps", "BlkioDeviceWriteBps", _rates),
    ("write_iops", "BlkioDeviceWriteIOps", _rates),
)
