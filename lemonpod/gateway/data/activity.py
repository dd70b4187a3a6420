"""What was asked of engines lately, and how it went: a record for each request, once it is over."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from lemonpod.engine.api import NO_WAIT, Wait
from lemonpod.errors import EngineStoppedError, LemonpodError, UpstreamError
from lemonpod.gateway.stats import UNKNOWN, Stats, Usage
from lemonpod.gateway.tally import Tally

log = logging.getLogger(__name__)

_KEPT: Final = 1000
_MAX_NAME: Final = 200
"""A client may ask for a model of any name."""


class Ending(StrEnum):
    """How a request ended."""

    COMPLETE = "complete"
    CLIENT_LEFT = "client_left"
    CLIENT_STALLED = "client_stalled"
    """It read nothing any more."""
    ENGINE_BROKE_OFF = "engine_broke_off"
    STOPPED = "stopped"
    """Its model was unloaded, or the server ended."""
    ERROR = "error"
    """Told to the client: by a status, or in the stream."""


def ending_by(error: LemonpodError) -> Ending:
    """How a request ended whose client was told of `error`."""
    if isinstance(error, EngineStoppedError):
        return Ending.STOPPED
    return Ending.ENGINE_BROKE_OFF if isinstance(error, UpstreamError) else Ending.ERROR


class Activity(NamedTuple):
    """One finished request. Times are in seconds; None is unknown, or did not come to pass."""

    started: float
    """By the wall clock."""
    method: str
    path: str
    model: str | None
    recipe: str | None
    status: int | None
    """As the client was told; None where the end came before that."""
    ending: Ending
    total: float
    bytes_in: int = 0
    bytes_out: int = 0
    wait: Wait = NO_WAIT
    usage: Usage = UNKNOWN
    engine_of: str | None = None
    """The model whose engine was asked, by its canonical id."""

    def as_json(self) -> dict[str, object]:
        """The record as `GET /internal/activity` shows it."""
        usage = self.usage
        return {
            "time": datetime.fromtimestamp(self.started, UTC).isoformat(timespec="milliseconds"),
            "method": self.method,
            "path": self.path,
            "model": _clipped(self.model),
            "recipe": self.recipe,
            "status": self.status,
            "ending": self.ending,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "queue_ms": _milliseconds(self.wait.queued),
            "load_ms": _milliseconds(self.wait.loaded),
            "first_token_ms": _milliseconds(usage.first_token),
            "total_ms": _milliseconds(self.total),
            "input_tokens": usage.input_tokens,
            "cached_tokens": usage.cached_tokens,
            "output_tokens": usage.output_tokens,
            "tokens_per_second": None if usage.speed is None else round(usage.speed, 2),
        }

    def __str__(self) -> str:
        model = _clipped(self.model)
        parts = [f"{self.method} {self.path}: {self.status or '-'} {self.ending}"]
        if model is not None:
            name = model if model.isprintable() else ascii(model)
            parts.append(name if self.recipe is None else f"{name} on {self.recipe}")
        parts.append(f"{self.total * 1000:.1f} ms")
        for what, seconds in (
            ("queued", self.wait.queued),
            ("loaded", self.wait.loaded),
            ("first token", self.usage.first_token),
        ):
            if seconds:
                parts.append(f"{what} {seconds * 1000:.1f} ms")
        if self.usage.input_tokens is not None:
            parts.append(f"{self.usage.input_tokens} tokens in")
        if self.usage.output_tokens is not None:
            parts.append(f"{self.usage.output_tokens} tokens out")
        if self.usage.speed:
            parts.append(f"{self.usage.speed:.1f} tokens/s")
        parts.append(f"{self.bytes_in} bytes in, {self.bytes_out} out")
        return ", ".join(parts)


class ActivityLog:
    """The last requests, in the order in which they ended; each is logged and counted as well."""

    def __init__(self, stats: Stats, *, slow: float, kept: int = _KEPT) -> None:
        """A request that took as long as `slow` is worth a line that everybody sees."""
        self._stats = stats
        self._slow = slow
        self._records: deque[Activity] = deque(maxlen=kept)
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        """Of all requests since the start, by model."""

    def add(self, record: Activity) -> None:
        """Take note of a finished request."""
        self._records.append(record)
        self._stats.add(record.usage)
        if record.engine_of is not None:
            self.tallies[record.engine_of].add(record.ending, record.total, record.wait, record.usage)
        if record.ending is Ending.COMPLETE and record.total < self._slow:
            log.debug("%s", record)  # a line takes longer than all else about a small request
        else:
            log.info("%s", record)

    def tail(self, count: int) -> list[dict[str, object]]:
        """The last `count` records, the newest at the end."""
        newest = list(islice(reversed(self._records), max(count, 0)))
        return [record.as_json() for record in reversed(newest)]


def _clipped(name: str | None) -> str | None:
    return name if name is None or len(name) <= _MAX_NAME else name[:_MAX_NAME] + "…"


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
