"""Devices and GPUs: `--device` and the two meanings of `--gpus`."""

from __future__ import annotations

import re
from posixpath import normpath
from typing import Final

from lemonpod.contract.location import shown
from lemonpod.launch.argv.values import Context, Refused, fields, require, size, strict_pair, whole
from lemonpod.launch.container import Device, DeviceRate, DeviceRequest, Runtime, is_cdi_name

_PERMISSIONS: Final = re.compile(r"[rwm]+")
_GPU_KEYS: Final = frozenset({"driver", "count", "device", "capabilities", "options"})
_CGROUP_RULE: Final = re.compile(r"[acb] ([0-9]+|\*):([0-9]+|\*) [rwm]{1,3}")
_WEIGHTS: Final = (10, 1000)
_ALL: Final = -1
_MAX_GPUS: Final = 1024  # so that a number of GPUs is not a list of a billion names


def device(text: str, context: Context) -> Device:
    """Of `--device`: `PATH[:TARGET][:PERMISSIONS]`, or a CDI name."""
    if is_cdi_name(text):
        return Device(text)
    path, *rest = text.split(":")
    if not path or len(rest) > 2:
        raise Refused(f"takes PATH[:TARGET][:PERMISSIONS] or a CDI name, not '{shown(text)}'")
    is_permissions = bool(rest) and _PERMISSIONS.fullmatch(rest[-1]) is not None
    if len(rest) == 2 and not is_permissions:
        raise Refused(f"takes r, w and m for permissions, not '{shown(rest[-1])}'")
    permissions = rest.pop() if is_permissions else None
    target = rest[0] if rest else None
    if context.runtime is Runtime.PODMAN:
        return Device(path, target, permissions)
    for one in filter(None, (path, target)):
        if not one.startswith("/"):
            raise Refused(f"takes an absolute path or a CDI name, not '{shown(one)}'")
    return Device(normpath(path), target and normpath(target), permissions)


def gpu_request(text: str) -> DeviceRequest:
    """Of `docker --gpus`: `all`, a number, or a record as `driver=nvidia,"device=0,1"`."""
    count: int | None = None
    driver = ""
    ids: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    given: set[str] = set()
    for field in fields(text):
        key, equals, value = field.partition("=")
        key, value = (key, value) if equals else ("count", key)
        require(key, _GPU_KEYS, "what to ask of the driver")
        if key in given:
            raise Refused(f"says '{key}' twice; quote a list, as '\"device=0,1\"'")
        given.add(key)
        match key:
            case "driver":
                driver = value
            case "count":
                count = _ALL if value == "all" else whole()(value)
            case "device":
                ids = tuple(value.split(","))
            case "capabilities":
                capabilities = tuple(value.split(","))
            case _:
                options = tuple(strict_pair(one) for one in fields(value))
    if not given:
        raise Refused("is empty")
    # docker asks for one where neither a number nor names are given.
    count = count if count is not None else 0 if "device" in given else 1
    return DeviceRequest(
        driver=driver, count=count, ids=ids, capabilities=(*capabilities, "gpu"), options=options
    )


def gpu_devices(text: str) -> tuple[Device, ...]:
    """Of `podman --gpus`, which all its versions understand as the devices that CDI names."""
    words = fields(text)
    if words and words[0].startswith("device="):
        words = (words[0].removeprefix("device="), *words[1:])
    if len(words) == 1 and words[0].isascii() and words[0].isdecimal():
        words = (
            tuple(str(index) for index in range(whole(0, _MAX_GPUS)(words[0]))) if text == words[0] else words
        )
    words = tuple(index for word in words for index in word.split(","))
    devices = tuple(Device(f"nvidia.com/gpu={word}") for word in words)
    for one in devices:
        if not one.is_cdi:
            raise Refused(f"takes all, a number or device=…, not '{shown(text)}'")
    return devices


def device_weight(text: str) -> DeviceRate:
    """`PATH:WEIGHT`."""
    path, colon, value = text.rpartition(":")
    if not colon or not path.startswith("/dev/"):
        raise Refused(f"takes /dev/…:NUMBER, not '{shown(text)}'")
    weight = whole(0)(value)
    if weight and not _WEIGHTS[0] <= weight <= _WEIGHTS[1]:
        raise Refused(f"takes a weight from {_WEIGHTS[0]} to {_WEIGHTS[1]}, not '{shown(text)}'")
    return DeviceRate(path, weight)


def device_count(text: str) -> DeviceRate:
    """`PATH:RATE`, a rate in operations."""
    path, colon, value = text.rpartition(":")
    if not colon or not path.startswith("/dev/"):
        raise Refused(f"takes /dev/…:NUMBER, not '{shown(text)}'")
    return DeviceRate(path, whole(0)(value))


def cgroup_rule(text: str) -> str:
    """Of `--device-cgroup-rule`: `TYPE MAJOR:MINOR ACCESS`."""
    if not _CGROUP_RULE.fullmatch(text):
        raise Refused(f"takes a rule as 'c 1:3 rwm', not '{shown(text)}'")
    return text


def device_rate(text: str, context: Context) -> DeviceRate:
    """`PATH:RATE`, a rate in bytes with a unit."""
    path, colon, value = text.rpartition(":")
    if not colon or not path.startswith("/dev/"):
        raise Refused(f"takes /dev/…:RATE, not '{shown(text)}'")
    return DeviceRate(path, size(value, context))
