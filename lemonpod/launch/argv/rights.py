"""Rights, namespaces and limits: who may what in a container, and with whom it shares."""

from __future__ import annotations

import json
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final

from lemonpod.contract.location import shown
from lemonpod.launch.argv.values import (
    Context,
    OnlyByCli,
    Reader,
    Refused,
    require,
    strict_pair,
    switch,
    whole,
)
from lemonpod.launch.container import Namespace, Network, Runtime, SecurityOption, Ulimit

KEEP_GROUPS: Final = "keep-groups"

_SECURITY: Final = MappingProxyType(
    {
        Runtime.DOCKER: frozenset({"label", "seccomp", "apparmor", "no-new-privileges", "systempaths"}),
        Runtime.PODMAN: frozenset(
            {
                "label",
                "seccomp",
                "apparmor",
                "no-new-privileges",
                "systempaths",
                "mask",
                "unmask",
                "proc-opts",
            }
        ),
    }
)
_SECCOMP_WORDS: Final = frozenset({"unconfined", "builtin"})
_LIMITS: Final = frozenset(
    """
    core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime sigpending stack
    """.split()  # noqa: SIM905
)
_SYSCTLS: Final = frozenset(
    """
    kernel.msgmax kernel.msgmnb kernel.msgmni kernel.sem kernel.shmall kernel.shmmax kernel.shmmni
    kernel.shm_rmid_forced
    """.split()  # noqa: SIM905
)
_SYSCTL_FAMILIES: Final = ("net.", "fs.mqueue.")
_WITH_VALUE: Final = frozenset({"container", "ns"})
_NAMESPACES: Final = MappingProxyType(
    {
        (Runtime.DOCKER, "ipc"): frozenset({"none", "host", "private", "shareable", "container"}),
        (Runtime.DOCKER, "pid"): frozenset({"host", "container"}),
        (Runtime.DOCKER, "uts"): frozenset({"host"}),
        (Runtime.DOCKER, "cgroupns"): frozenset({"host", "private"}),
        (Runtime.DOCKER, "userns"): frozenset({"host"}),
        (Runtime.PODMAN, "ipc"): frozenset({"none", "host", "private", "shareable", "container", "ns"}),
        (Runtime.PODMAN, "pid"): frozenset({"host", "private", "container", "ns"}),
        (Runtime.PODMAN, "uts"): frozenset({"host", "private", "container", "ns"}),
        (Runtime.PODMAN, "cgroupns"): frozenset({"host", "private", "container", "ns"}),
        (Runtime.PODMAN, "userns"): frozenset(
            {"host", "private", "auto", "keep-id", "nomap", "container", "ns"}
        ),
    }
)
_ALIASES_OF_MODES: Final = MappingProxyType({"ns": "path", "nomap": "no-map"})  # as libpod's API calls them
_DEFAULT_NETWORK: Final = "default"  # what the API calls the one that is named in the engine's configuration
_PODMAN_NETWORK_MODES: Final = frozenset(
    {"none", "host", "private", "slirp4netns", "pasta", "container", "ns"}
)
_NETWORK_KEYS: Final = MappingProxyType(
    {
        Runtime.DOCKER: frozenset({"name", "alias", "ip", "ip6"}),
        Runtime.PODMAN: frozenset({"alias", "ip", "ip6", "mac", "interface_name"}),
    }
)


def security(text: str, context: Context) -> SecurityOption:
    """Of `--security-opt`: a word, or `NAME=VALUE`, which may be written with a colon."""
    separator = "=" if "=" in text else ":"
    name, given, value = text.partition(separator)
    if name not in _SECURITY[context.runtime]:
        # docker's program lets it pass, and its daemon refuses the container.
        raise Refused(f"has no option '{shown(name)}'")
    if name == "no-new-privileges":
        return SecurityOption(name, str(switch(value)).lower() if given else None)
    if not given or not value:
        raise Refused(f"takes {name}=VALUE")
    if name == "systempaths" and value != "unconfined":
        raise Refused(f"takes systempaths=unconfined, not '{shown(text)}'")
    if name == "seccomp" and context.runtime is Runtime.DOCKER and value not in _SECCOMP_WORDS:
        value = _profile(value, context)
    return SecurityOption(name, value)


def capability(text: str, context: Context) -> str:
    """Of `--cap-add` and `--cap-drop`; docker's program writes them all one way."""
    if context.runtime is Runtime.PODMAN:
        return text
    name = text.strip().upper()
    return name if name == "ALL" or name.startswith("CAP_") else f"CAP_{name}"


def namespace(kind: str) -> Reader:
    """A reader of one flag that shares a namespace; an empty value is the engine's default."""

    def read(text: str, context: Context) -> Namespace | None:
        mode, colon, value = text.partition(":")
        if not text:
            return None
        known = _NAMESPACES[context.runtime, kind]
        if mode not in known:
            raise Refused(f"is one of {', '.join(sorted(known))}, not '{shown(text)}'")
        if mode in _WITH_VALUE:
            if not value:
                raise Refused(f"takes {mode}:…, not '{shown(text)}'")
        elif mode == "auto" and colon:
            raise OnlyByCli("the sizes of an automatic mapping have another form in each version")
        elif colon and mode != "keep-id":
            raise Refused(f"takes nothing behind '{mode}'")
        return Namespace(_ALIASES_OF_MODES.get(mode, mode), value if colon else None)

    return read


def network(text: str, context: Context) -> Namespace | Network:
    """Of `--network`: a mode of its own, or a network to join."""
    if context.runtime is Runtime.DOCKER:
        return _docker_network(text)
    mode, _, options = (text or "private").partition(":")
    if mode not in _PODMAN_NETWORK_MODES:
        name = _DEFAULT_NETWORK if mode == "bridge" else mode
        return _with_options(Network(name=name), options.split(",") if options else [], context.runtime)
    if mode in _WITH_VALUE and not options:
        raise Refused(f"takes {mode}:…, not '{shown(text)}'")
    if options and mode in {"none", "host", "private"}:
        raise Refused(f"takes nothing behind '{mode}'")
    return Namespace(_ALIASES_OF_MODES.get(mode, mode), options or None)


def ulimit(text: str, context: Context) -> Ulimit:
    """Of `--ulimit`: `NAME=SOFT[:HARD]`."""
    if text == "host" and context.runtime is Runtime.PODMAN:
        raise OnlyByCli("the limits are those of the program that runs the command")
    name, equals, limits = text.partition("=")
    if not equals:
        raise Refused(f"takes NAME=SOFT[:HARD], not '{shown(text)}'")
    plain = name.lower().removeprefix("rlimit_")
    if name != plain and plain in _LIMITS and context.runtime is Runtime.PODMAN:
        raise OnlyByCli("podman 5 knows limits by the kernel's names, podman 4 does not")
    require(name, _LIMITS, "the limit")
    soft, colon, hard = limits.partition(":")
    number = whole(-1)
    limit = Ulimit(name, number(soft), number(hard) if colon else number(soft))
    if limit.hard != -1 and not 0 <= limit.soft <= limit.hard:
        raise Refused(f"has a soft limit above the hard one: '{shown(text)}'")
    return limit


def dns_server(text: str, context: Context) -> str:
    """Of `--dns`: an address, which docker's program checks."""
    if text == "none" and context.runtime is Runtime.PODMAN:
        raise OnlyByCli("that the image's own resolv.conf stays is said with another word in the API")
    if context.runtime is Runtime.DOCKER:
        try:
            ip_address(text.strip())
        except ValueError:
            raise Refused(f"takes an IP address, not '{shown(text)}'") from None
    return text


def sysctl(text: str) -> tuple[str, str]:
    """Of `--sysctl`: those that are a container's own, both programs say."""
    name, value = strict_pair(text)
    if name not in _SYSCTLS and not name.startswith(_SYSCTL_FAMILIES):
        raise Refused(f"does not allow '{shown(name)}'")
    return name, value


def _profile(path: str, context: Context) -> str:
    """A seccomp profile itself: docker's daemon does not see the file."""
    try:
        return json.dumps(json.loads(context.text_of(path)), separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        raise Refused(f"names a profile that is no JSON: '{shown(path)}'") from None


def _docker_network(text: str) -> Namespace | Network:
    if "=" in text:
        words = text.split(",")
        name = next((word.partition("=")[2] for word in words if word.startswith("name=")), "")
        if not name:
            raise Refused(f"takes NAME or name=NAME,…, not '{shown(text)}'")
        rest = [word for word in words if not word.startswith("name=")]
        return _with_options(Network(name=name), rest, Runtime.DOCKER)
    mode, colon, value = text.partition(":")
    if not mode:
        raise Refused("takes the name of a network")
    if mode == "container" and not value:
        raise Refused(f"takes container:NAME, not '{shown(text)}'")
    return Namespace(mode, value if colon else None)


def _with_options(network: Network, words: list[str], runtime: Runtime) -> Network:
    aliases, ips = [], []
    mac = interface = None
    if not network.name:
        raise Refused("takes the name of a network")
    for word in words:
        key, _, value = word.partition("=")
        if key not in _NETWORK_KEYS[runtime] or not value:
            raise OnlyByCli(f"'{shown(word)}' is not said of a network in every version")
        if key == "alias":
            aliases.append(value)
        elif key == "mac":
            mac = value
        elif key == "interface_name":
            interface = value
        else:
            ips.append(value)
    return Network(name=network.name, aliases=tuple(aliases), ips=tuple(ips), mac=mac, interface=interface)
