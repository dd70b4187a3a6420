"""The processes of a container of this machine: whose port it is, what they listen on, what they use.

An answer on a port counts only when it came from the container's own socket.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

import psutil

from lemonpod.drivers import tree
from lemonpod.drivers.peer import check_peer
from lemonpod.drivers.runtime import ContainerInfo, Usage
from lemonpod.errors import EngineError
from lemonpod.launch.container import ContainerSpec
from lemonpod.launch.plan import LaunchPlan, TcpEndpoint

_SHARED: Final = frozenset({"container", "ns", "pod"})
"""Networks that somebody else has made, and publishes ports for."""
_DNS_OF_DOCKER: Final = "127.0.0.11"
"""Of its own in every network that a user has made."""
_ANY: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  compared with, never bound


def check_owner(plan: LaunchPlan, spec: ContainerSpec, info: ContainerInfo, *, local: bool) -> str | None:
    """None where the plan's port is the running container's, or else what keeps us from telling yet.

    Raises EngineError where a stranger holds it. `local` is whether the container's pids are ours. Blocks.
    """
    if publishes(info, plan.endpoint):
        return None
    if info.host_network:
        if not local:
            return None
        processes = processes_of(info)
        return check_peer(plan, processes) if processes else "none of the container's processes is to be seen"
    if _is_shared(spec):
        return None
    raise EngineError(
        f"port {plan.endpoint.port} is answered by another program: the container of {plan.model} does not "
        "publish it",
        hint=publishing_hint(plan.endpoint),
    )


def publishes(info: ContainerInfo, endpoint: TcpEndpoint) -> bool:
    """Whether the port of the host leads into the container."""
    return any(
        port.host_port == endpoint.port and port.host_ip in {*_ANY, endpoint.host} for port in info.published
    )


def cannot_be_reached(spec: ContainerSpec, info: ContainerInfo, endpoint: TcpEndpoint) -> bool:
    """Whether nothing that the container listens on can be had at that port."""
    return not (info.host_network or _is_shared(spec) or publishes(info, endpoint))


def publishing_hint(endpoint: TcpEndpoint) -> str:
    """What lets the port lead into a container."""
    return f"add '-p {endpoint.host}:{{port}}:PORT' with the port that it listens on, or '--network host'"


def listening_places(info: ContainerInfo) -> str | None:
    """What the container's processes listen on, for people; None where we may not look."""
    if info.pid is None:
        return None
    try:
        if info.host_network:
            found = tree.listeners_of(processes_of(info))
        else:
            found = [one for one in tree.listeners_beside(info.pid) if one.host != _DNS_OF_DOCKER]
    except (psutil.AccessDenied, OSError):
        return None
    places = ", ".join(sorted({str(listener) for listener in found})) or "no port"
    if not info.host_network and found and all(ip_address(one.host).is_loopback for one in found):
        places += " of its own network, where no published port leads: have it listen on 0.0.0.0"
    return places


def processes_of(info: ContainerInfo) -> list[psutil.Process]:
    """The processes of a running container of this machine: its first one and all that descend from it.

    Who loses its parent in there gets the first one for it.
    """
    try:
        first = psutil.Process(info.pid or -1)
        return [first, *first.children(recursive=True)]
    except (psutil.NoSuchProcess, ValueError):
        return []


def usage_of(info: ContainerInfo) -> Usage:
    """What its processes use now."""
    seconds, resident, count = tree.usage(processes_of(info))
    return Usage(cpu_seconds=seconds, memory_bytes=resident, processes=count)


def _is_shared(spec: ContainerSpec) -> bool:
    return spec.network_mode is not None and spec.network_mode.mode in _SHARED
