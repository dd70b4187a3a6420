"""Waiting for what must come true, instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path

from lemonpod.broker.ports import is_free


async def until(predicate: Callable[[], object], *, timeout: float = 15.0) -> None:
    """Poll until the predicate holds; fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not predicate():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """The process runs: not gone, and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def carriers(run: str) -> list[int]:
    """The living processes whose environment says that they belong to a run."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and alive(int(entry)):
            try:
                environ = Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            if f"LEMONPOD_ENGINE={run}".encode() in environ:
                found.append(int(entry))
    return found


def unused_port() -> int:
    """A loopback port that nobody holds now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def unused_ports(count: int) -> int:
    """The first of so many loopback ports in a row that nobody holds; other tests may run meanwhile."""
    for _ in range(1000):
        first = random.randrange(10_000, 32_000 - count)
        if all(is_free("127.0.0.1", port) for port in range(first, first + count)):
            return first
    raise AssertionError(f"no {count} free ports in a row")
