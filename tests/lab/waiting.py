"""Waiting for what must come true, for code that is not async."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.lab.errors import LabError

_INTERVAL = 0.02


def wait_until(predicate: Callable[[], object], what: str, *, timeout: float = 30.0) -> None:
    """Poll until the predicate holds; fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not predicate():
        if time.monotonic() > deadline:
            raise LabError(f"waited {timeout:.0f} s in vain: {what}")
        time.sleep(_INTERVAL)
