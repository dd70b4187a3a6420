"""Ports: `[[ADDRESS:][HOST[-LAST]]:]CONTAINER[-LAST][/PROTOCOL]`."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

from lemonpod.contract.location import shown
from lemonpod.launch.argv.values import Context, Refused, fields, require
from lemonpod.launch.container import PortMapping, Runtime

_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_PROTOCOLS: Final = frozenset({"tcp", "udp", "sctp"})
_LONG_FORM: Final = frozenset({"published", "target", "protocol", "mode"})


def published(text: str, context: Context) -> PortMapping:
    """Of `--publish`."""
    if "=" in text and context.runtime is Runtime.DOCKER:
        text = _short_form(text)
    rest, slash, protocol = text.partition("/")
    address, host, container = _parts(rest, text, context)
    first, last = _range(container, text)
    host_first, host_last = _range(host, text) if host else (None, None)
    length = last - first + 1
    if host_first is not None and host_last is not None:
        either = length == 1 and context.runtime is Runtime.DOCKER
        if host_last - host_first + 1 != length and not either:
            raise Refused(f"has two ranges of different length: '{shown(text)}'")
        if not host_first and context.runtime is Runtime.PODMAN:
            raise Refused("takes no port 0 of the host; leave it out for any")
    return PortMapping(
        host_ip=_address(address, text),
        host_port=host_first,
        host_last=host_last if host_last != host_first and length == 1 else None,
        container_port=first,
        length=length,
        protocol=_protocol(protocol, context) if slash else "",
    )


def exposed(text: str, context: Context) -> PortMapping:
    """Of `--expose`: a port or a range, not published."""
    ports, slash, protocol = text.partition("/")
    first, last = _range(ports, text)
    if not first and context.runtime is Runtime.PODMAN:
        raise Refused("takes ports from 1 on")
    return PortMapping(
        container_port=first,
        length=last - first + 1,
        protocol=protocol if slash else "tcp",
    )


def _short_form(text: str) -> str:
    given: dict[str, str] = {}
    for field in fields(text):
        key, equals, value = field.partition("=")
        if not equals:
            raise Refused(f"takes NAME=VALUE between commas, not '{shown(field)}'")
        require(key, _LONG_FORM, "a name")
        given[key] = value
    target = f"{given.get('target', '')}/{given.get('protocol', 'tcp')}"
    return f"{given['published']}:{target}" if "published" in given else target


def _parts(rest: str, text: str, context: Context) -> tuple[str, str, str]:
    """Address, port of the host and port of the container; to podman an IPv6 address stands in brackets."""
    match = re.fullmatch(r"\[([^\]]*)\]:(.*)", rest, re.DOTALL)
    address, rest = (match[1], match[2]) if match else ("", rest)
    parts = rest.rsplit(":", 2) if context.runtime is Runtime.DOCKER else rest.split(":")
    if match and len(parts) == 2:
        return address, parts[0], parts[1]
    if match or len(parts) > 3:
        raise Refused(f"takes [ADDRESS:][HOST:]CONTAINER, an IPv6 address in brackets, not '{shown(text)}'")
    padded = ["", ""][: 3 - len(parts)] + parts
    return padded[0], padded[1], padded[2]


def _range(ports: str, text: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(ports)
    if not match:
        raise Refused(f"takes ports from 0 to 65535, not '{shown(ports)}' in '{shown(text)}'")
    first = int(match[1])
    last = int(match[2] or match[1])
    if not first <= last <= 65535:
        raise Refused(f"takes ports from 0 to 65535, not '{shown(ports)}' in '{shown(text)}'")
    return first, last


def _address(address: str, text: str) -> str:
    if not address:
        return ""
    try:
        ip_address(address.partition("%")[0])
    except ValueError:
        raise Refused(f"takes an IP address, not '{shown(address)}' in '{shown(text)}'") from None
    return address


def _protocol(protocol: str, context: Context) -> str:
    if context.runtime is Runtime.PODMAN:
        return protocol  # which the engine judges
    require(protocol.lower(), _PROTOCOLS, "the protocol")
    return protocol.lower()
