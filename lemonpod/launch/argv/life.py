"""The life of a container: entry point, health, restarts, signals, platform."""

from __future__ import annotations

import json
import re
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final

from lemonpod.contract.location import shown
from lemonpod.launch.argv.values import (
    Context,
    OnlyByCli,
    Refused,
    decimal_size,
    duration,
    fields,
    pair,
    require,
    strict_pair,
    whole,
)
from lemonpod.launch.container import Platform, PullPolicy, Restart, Runtime, Stream

RTMIN: Final = 34
"""The first signal that the C library leaves to programs, which podman counts from."""
_RTMAX: Final = 64
_SIGNAL_NAMES: Final = """
    HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU
    URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS
""".split()  # noqa: SIM905 - in the order of their numbers
SIGNALS: Final = MappingProxyType(
    {name: number for number, name in enumerate(_SIGNAL_NAMES, start=1)} | {"IOT": 6, "POLL": 29, "CLD": 17}
)
"""Linux's signals by name: the engine runs there, whatever lemonpod runs on."""
_REAL_TIME: Final = re.compile(r"RT(MIN|MAX)(?:([+-])([0-9]{1,2}))?")
_RESTART_POLICIES: Final = frozenset({"no", "always", "on-failure", "unless-stopped"})
_HOST_GATEWAY: Final = "host-gateway"
_PULLS: Final = MappingProxyType(
    {
        Runtime.DOCKER: MappingProxyType(
            {one.value: one for one in PullPolicy if one is not PullPolicy.NEWER}
        ),
        Runtime.PODMAN: MappingProxyType(
            {one.value: one for one in PullPolicy} | {"ifnotpresent": PullPolicy.MISSING}
        ),
    }
)


def entrypoint(text: str, context: Context) -> tuple[str, ...] | None:
    """One word, of which an empty one takes the image's away; for podman also a JSON array of words."""
    if context.runtime is Runtime.PODMAN and text.startswith("["):
        try:
            words = json.loads(text)
        except (ValueError, RecursionError):
            return (text,)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise OnlyByCli("a JSON list of other things than words is not read as one")
        return tuple(words) or None
    return (text,)


def stream(text: str) -> Stream:
    require(text.lower(), {stream.value for stream in Stream}, "a stream")
    return Stream(text.lower())


def pull_policy(text: str, context: Context) -> PullPolicy:
    policies = _PULLS[context.runtime]
    text = text or PullPolicy.MISSING
    if text not in policies and context.runtime is Runtime.PODMAN and text.lower() in {"true", "false"}:
        raise OnlyByCli(f"what '{text}' means differs between versions")
    require(text, policies, "the policy")
    return policies[text]


def platform(text: str, context: Context) -> Platform | None:
    """`OS[/ARCH[/VARIANT]]`."""
    if not text:
        return None
    parts = text.split("/")
    if len(parts) == 1 and context.runtime is Runtime.DOCKER:
        raise OnlyByCli("the program adds its own architecture")
    if not all(parts) or len(parts) > 3:
        raise Refused(f"takes OS/ARCH[/VARIANT], not '{shown(text)}'")
    return Platform(**dict(zip(("os", "arch", "variant"), parts, strict=False)))


def restart(text: str, context: Context) -> Restart | None:
    """`POLICY[:RETRIES]`; the count is for on-failure."""
    if not text:
        return None
    policy, colon, retries = text.partition(":")
    require(policy, _RESTART_POLICIES, "the policy")
    if colon and policy != "on-failure":
        raise Refused(f"takes a number of retries only for on-failure, not '{shown(text)}'")
    return Restart(policy, whole(0)(retries) if colon else None)


def health_command(text: str, context: Context) -> tuple[str, ...]:
    """A line for the shell of the container; `none` is no check."""
    if context.runtime is Runtime.DOCKER:
        return ("CMD-SHELL", text) if text else ()
    if text == "none":
        return ("NONE",)
    first = text.split(" ", 1)[0].upper()
    if text.startswith("[") and first not in {'["CMD",', '["CMD-SHELL",', '["NONE"]'}:
        words = entrypoint(text, context)
        return ("CMD", *words) if words and words != (text,) else ("CMD-SHELL", text)
    if not text:
        return ()
    if text.startswith("[") or first in {"CMD", "CMD-SHELL", "NONE"}:
        raise OnlyByCli("only a plain line for the shell means the same in every version")
    return ("CMD-SHELL", text)


def health_interval(text: str, context: Context) -> int:
    if text == "disable" and context.runtime is Runtime.PODMAN:
        return 0
    return duration(text)


def stop_signal(text: str, context: Context) -> str | None:
    """A name or a number; podman's program looks it up, docker's leaves it to the daemon."""
    if text and context.runtime is Runtime.PODMAN and signal_number(text) is None:
        raise Refused(f"takes a signal, not '{shown(text)}'")
    return text or None


def signal_number(text: str) -> int | None:
    """The number of a signal on Linux, by name or number; None where there is no such signal."""
    name = text.upper().removeprefix("SIG")
    if re.fullmatch(r"[0-9]{1,3}", name):
        return int(name) if 1 <= int(name) <= _RTMAX else None
    if name in SIGNALS:
        return SIGNALS[name]
    if not (match := _REAL_TIME.fullmatch(name)):
        return None
    offset = int(f"{match[2] or '+'}{match[3] or 0}")
    number = (RTMIN if match[1] == "MIN" else _RTMAX) + offset
    return number if RTMIN <= number <= _RTMAX else None


def extra_host(text: str, context: Context) -> tuple[str, ...]:
    """`HOST:ADDRESS`, which docker's program also takes with an equals sign."""
    words = (text,) if context.runtime is Runtime.DOCKER else fields(text)
    return tuple(_extra_host(word, context) for word in words)


def log_driver(text: str, context: Context) -> str | None:
    if text.startswith("passthrough") and context.runtime is Runtime.PODMAN:
        raise OnlyByCli("the output is passed to that of the program")
    return text or None


def log_option(text: str, context: Context) -> tuple[str, str]:
    """`NAME=VALUE`; the size that podman is told is a number."""
    if context.runtime is Runtime.DOCKER:
        return pair(text)
    name, value = strict_pair(text)
    return name, str(decimal_size(value)) if name == "max-size" else value


def _extra_host(text: str, context: Context) -> str:
    if context.runtime is Runtime.DOCKER and "=" in text.partition(":")[0]:
        name, _, address = text.partition("=")
    else:
        name, _, address = text.partition(":")
    if context.runtime is Runtime.DOCKER and address.startswith("["):
        address = address.removeprefix("[").removesuffix("]")
    if not name or not (address == _HOST_GATEWAY or _is_address(address)):
        raise Refused(f"takes HOST:ADDRESS, not '{shown(text)}'")
    return f"{name}:{address}"


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
