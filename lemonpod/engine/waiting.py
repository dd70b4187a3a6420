"""How many wait for each model, and no more than may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import QueueFullError


class Waiting:
    """Counts those who wait, whichever of the model's lives they wait for."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._counts: Counter[str] = Counter()

    @contextmanager
    def one_more(self, model: str) -> Iterator[None]:
        """One more that waits for the model, if it may. Raises QueueFullError."""
        limit = self._settings.max_queue
        if self._counts[model] >= limit:
            raise QueueFullError(
                f"{limit} requests wait for {model} already",
                retry_after=self._settings.swap_turn,
                hint="come back later, or raise lemonpod.max_queue",
            )
        self._counts[model] += 1
        try:
            yield
        finally:
            self._counts[model] -= 1
            if not self._counts[model]:
                del self._counts[model]
