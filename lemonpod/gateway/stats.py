"""What `/stats` reports: the last answer's numbers and the sums since the start."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lemonpod.gateway.json_body import JsonBody


@dataclass(slots=True)
class Stats:
    """Counted from the `usage` and `timings` objects of answers that pass whole; streams are not opened."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    last_input: int = 0
    last_output: int = 0
    last_cached: int | None = None
    last_first_token: float = 0.0
    """Seconds."""
    last_speed: float = 0.0
    """Tokens a second."""
    streams: Counter[str] = field(default_factory=Counter)
    """Event streams on their way now, by model."""

    @contextmanager
    def streaming(self, model: str) -> Iterator[None]:
        """Count an event stream while the block lasts."""
        self.streams[model] += 1
        try:
            yield
        finally:
            self.streams[model] -= 1

    def count(self, body: JsonBody) -> None:
        """Add one answer, if it says what it used."""
        usage = _object(body.get("usage"))
        if not usage:
            return
        timings = _object(body.get("timings"))  # llama.cpp's addition
        self.last_input = _count(usage.get("prompt_tokens", usage.get("input_tokens")))
        self.last_output = _count(usage.get("completion_tokens", usage.get("output_tokens")))
        cached = _object(usage.get("prompt_tokens_details")).get("cached_tokens")
        self.last_cached = None if cached is None else _count(cached)
        self.last_first_token = _number(timings.get("prompt_ms")) / 1000
        self.last_speed = _number(timings.get("predicted_per_second"))
        self.input_tokens += self.last_input
        self.output_tokens += self.last_output

    def as_json(self) -> dict[str, object]:
        """The shape of Lemonade's `/stats`."""
        return {
            "input_tokens": self.last_input,
            "output_tokens": self.last_output,
            "time_to_first_token": self.last_first_token,
            "tokens_per_second": self.last_speed,
            "prompt_tokens": self.last_input,
            "cache_tokens": self.last_cached,
            "request_count_total": self.requests,
            "input_tokens_total": self.input_tokens,
            "output_tokens_total": self.output_tokens,
            "prompt_tokens_total": self.input_tokens,
            "routing_decisions_total": 0,
            "routing_switches_total": 0,
        }


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    try:
        number = float(value)
    except OverflowError:  # more digits than a float holds
        return 0.0
    return max(number, 0.0) if math.isfinite(number) else 0.0


def _count(value: object) -> int:
    return int(_number(value))
