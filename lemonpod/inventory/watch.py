"""Looks for edits of manifests and model files for as long as the server runs."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

_log: Final = logging.getLogger(__name__)


class Refreshable(Protocol):
    def refresh(self) -> object:
        """Look at the disk; blocks."""


class Watcher:
    """Polls, for that sees every way to save a file: in place, by rename, through links and bind mounts."""

    def __init__(self, inventory: Refreshable, interval: float = 2.0) -> None:
        self._inventory = inventory
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to watch. The first look is `interval` seconds away."""
        self._task = asyncio.create_task(self._watch(), name="inventory watcher")

    async def aclose(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        failed = False
        while True:
            await asyncio.sleep(self._interval)
            try:
                await asyncio.to_thread(self._inventory.refresh)
                failed = False
            except Exception:
                # Whatever it is, the next look may succeed; said once, not every two seconds.
                if not failed:
                    _log.exception("looking for changed manifests and models failed")
                failed = True
