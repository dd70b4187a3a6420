"""What the end of a container means."""

from __future__ import annotations

import signal
from types import MappingProxyType
from typing import Final

from lemonpod.drivers.runtime import ContainerInfo
from lemonpod.engine.api import ExitStatus

# What shells and both runtimes agree on; a program may return these as well, hence "by convention".
_CONVENTIONS: Final = MappingProxyType(
    {
        125: "by convention, the runtime could not run it",
        126: "by convention, its command cannot be executed",
        127: "by convention, its command was not found",
    }
)
_BY_SIGNAL: Final = 128
OUT_OF_MEMORY: Final = "out of memory"
_UNASKED_KILL: Final = "not by lemonpod; most often the kernel, out of memory"
"""Podman misses some of its kills, with cgroups v1 all of them."""


def exit_status(info: ContainerInfo | None, *, wanted: bool) -> ExitStatus:
    """How a container that does not run any more came to its end; None is one that is not there."""
    if info is None:
        text = "was removed" if wanted else "was removed by somebody else"
        return ExitStatus(wanted=wanted, reason=text)
    code = info.exit_code
    reason = info.error or None
    if info.oom_killed:
        reason = OUT_OF_MEMORY
    if code is None:
        return ExitStatus(wanted=wanted, reason=reason and f"did not run: {reason}")
    if (number := code - _BY_SIGNAL) in {known.value for known in signal.Signals}:
        if number == signal.SIGKILL and not wanted:
            reason = reason or _UNASKED_KILL
        return ExitStatus(signal=number, wanted=wanted, reason=reason)
    return ExitStatus(code=code, wanted=wanted, reason=reason or _CONVENTIONS.get(code))
