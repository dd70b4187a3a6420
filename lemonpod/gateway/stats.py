"""What `/stats` reports: the last answer's numbers and the sums since the start."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple


class Usage(NamedTuple):
    """What one answer used; None is unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Those of the input that were known from earlier requests."""
    first_token: float | None = None
    """Seconds."""
    speed: float | None = None
    """Tokens a second."""


UNKNOWN: Final = Usage()


def usage_of(usage: object, timings: object) -> Usage:
    """What an answer's member `usage` tells, and `timings`, which llama.cpp adds to it."""
    told, timed = _object(usage), _object(timings)
    if not told and not timed:
        return UNKNOWN
    details = _object(_first(told, "prompt_tokens_details", "input_tokens_details"))
    given = _count(_first(told, "prompt_tokens", "input_tokens"))
    made = _count(_first(told, "completion_tokens", "output_tokens"))
    cached = _count(details.get("cached_tokens"))
    if not timed:
        return Usage(given, made, cached)
    prompt_ms = _number(timed.get("prompt_ms"))
    return Usage(
        input_tokens=_count(timed.get("prompt_n")) if given is None else given,
        output_tokens=_count(timed.get("predicted_n")) if made is None else made,
        cached_tokens=_count(timed.get("cache_n")) if cached is None else cached,
        first_token=None if prompt_ms is None else prompt_ms / 1000,
        speed=_number(timed.get("predicted_per_second")),
    )


_MANY: Final = 1 << 53


@dataclass(slots=True)
class Stats:
    """The last answer's numbers, and the sums of all of them."""

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

    def add(self, usage: Usage) -> None:
        """Add what one answer used, if that is known."""
        if usage.input_tokens is None and usage.output_tokens is None:
            return
        self.last_input = usage.input_tokens or 0
        self.last_output = usage.output_tokens or 0
        self.last_cached = usage.cached_tokens
        self.last_first_token = usage.first_token or 0.0
        self.last_speed = usage.speed or 0.0
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


def _first(told: Mapping[str, Any], name: str, other: str) -> object:
    value = told.get(name)
    return told.get(other) if value is None else value


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:  # more digits than a float holds
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _count(value: object) -> int | None:
    if type(value) is int and 0 <= value < _MANY:
        return value
    number = None if value is None else _number(value)
    return None if number is None or number >= _MANY else int(number)
