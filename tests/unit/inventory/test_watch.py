from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

import pytest

from lemonpod.inventory.watch import Watcher


class FakeInventory:
    """Counts its refreshes; the first `failures` of them fail."""

    def __init__(self, failures: int = 0) -> None:
        self.refreshes = 0
        self.threads: set[int] = set()
        self._failures = failures

    def refresh(self) -> None:
        self.refreshes += 1
        self.threads.add(threading.get_ident())
        if self.refreshes <= self._failures:
            raise RuntimeError("the disk is on fire")


async def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_it_looks_again_and_again_off_the_loop() -> None:
    inventory = FakeInventory()
    watcher = Watcher(inventory, interval=0.01)
    await watcher.start()
    await until(lambda: inventory.refreshes >= 3)
    await watcher.aclose()
    seen = inventory.refreshes
    await asyncio.sleep(0.05)
    assert inventory.refreshes <= seen + 1, "one look may have been under way"
    assert threading.get_ident() not in inventory.threads


async def test_a_failure_is_said_once_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    inventory = FakeInventory(failures=3)
    watcher = Watcher(inventory, interval=0.01)
    with caplog.at_level(logging.ERROR, "lemonpod"):
        await watcher.start()
        await until(lambda: inventory.refreshes >= 5)
        await watcher.aclose()
    assert len(caplog.records) == 1
    assert "the disk is on fire" in caplog.text


async def test_closing_what_was_never_started() -> None:
    await Watcher(FakeInventory()).aclose()
