"""What came of a model's requests since the start, as counters and distributions."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from lemonpod.engine.api import Wait
from lemonpod.gateway.stats import UNKNOWN, Usage

BOUNDS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds: from a first token out of a cache to the load of a big model."""


@dataclass(slots=True)
class Distribution:
    """How many were how long; the last of `counts` is of those beyond the last of BOUNDS."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float | None) -> None:
        """One more, if there was one."""
        if seconds is not None:
            self.counts[bisect_left(BOUNDS, seconds)] += 1
            self.total += seconds


@dataclass(slots=True)
class Tally:
    """Of the requests whose engine was asked."""

    endings: Counter[str] = field(default_factory=Counter)
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    last: Usage = UNKNOWN
    """Of the last answer that told of it."""
    queued: Distribution = field(default_factory=Distribution)
    loaded: Distribution = field(default_factory=Distribution)
    first_token: Distribution = field(default_factory=Distribution)
    whole: Distribution = field(default_factory=Distribution)

    def add(self, ending: str, total: float, wait: Wait, usage: Usage) -> None:
        """Count a request that is over."""
        self.endings[ending] += 1
        self.whole.add(total)
        self.queued.add(wait.queued)
        self.loaded.add(wait.loaded)
        self.first_token.add(usage.first_token)
        if usage.input_tokens is not None or usage.output_tokens is not None:
            self.last = usage
            self.input_tokens += usage.input_tokens or 0
            self.output_tokens += usage.output_tokens or 0
            self.cached_tokens += usage.cached_tokens or 0
