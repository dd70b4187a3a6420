"""What a running container uses, measured for all who ask at the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from lemonpod.drivers.runtime import Usage
from lemonpod.engine.api import EngineStats
from lemonpod.engine.tasks import cancel
from lemonpod.errors import EngineError

ANSWER_TIMEOUT: Final = 3.0
"""Old versions of docker take two seconds; a runtime that hangs must not hold up a table of all engines."""


class Meter:
    """Turns what was used since the start into what is used now."""

    def __init__(self, measure: Callable[[], Coroutine[Any, Any, Usage]]) -> None:
        self._measure = measure
        self._measuring: asyncio.Task[EngineStats] | None = None
        self._before: tuple[float, float] | None = None

    async def read(self) -> EngineStats:
        """Nothing where the runtime does not tell in time; it is not asked again before it has told."""
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.create_task(self._read())
        measuring = self._measuring
        await asyncio.wait({measuring}, timeout=ANSWER_TIMEOUT)
        return measuring.result() if measuring.done() and not measuring.cancelled() else EngineStats()

    async def aclose(self) -> None:
        """Measure no more."""
        if self._measuring is not None:
            await cancel(self._measuring)

    async def _read(self) -> EngineStats:
        try:
            usage = await self._measure()
        except EngineError:
            return EngineStats()
        before, now = self._before, time.monotonic()
        percent = None
        if usage.cpu_seconds is not None:
            self._before = (now, usage.cpu_seconds)
            if before is not None and now > before[0]:
                percent = max(0.0, 100.0 * (usage.cpu_seconds - before[1]) / (now - before[0]))
        return EngineStats(cpu_percent=percent, memory_bytes=usage.memory_bytes, processes=usage.processes)
