"""How many files may be open: for the server as many as the kernel grants, for what it starts as it was told.

A program with select(2) breaks at a file descriptor beyond 1023. That is why soft limits are low as a rule,
why who needs more raises its own, and why it must not hand that on.
"""

from __future__ import annotations

import os
import resource
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_FREE: Final = 64
"""Files that others of this process may want to open within a moment."""

_given: tuple[int, int] | None = None
"""The limits that this process was started with, once they are not its own any more."""
_lock: Final = threading.Lock()


def raise_limit() -> None:
    """Let this process open as many files as it may."""
    global _given
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        _given = soft, hard


def with_given_limit(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a process, which gets the limits that this one was started with.

    It inherits what holds at that moment, and Python can do nothing in between. So the limit is low for that
    moment. Where too many files are open for that, the process may see the higher one when it begins.
    """
    if _given is None:
        return start()
    with _lock:
        if _lowest_free() < _given[0] - _FREE:
            resource.setrlimit(resource.RLIMIT_NOFILE, _given)
            try:
                return start()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (_given[1], _given[1]))
    process = start()
    with suppress(ProcessLookupError):
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, _given)
    return process


def _lowest_free() -> int:
    """The number that the next file would get."""
    number = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.close(number)
    return number
