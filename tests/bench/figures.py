"""Percentiles, the medians of rounds with their spread, and figures that may have a limit. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

OURS: Final = "lemonpod"

Rounds = Sequence[float | None]
"""One value for each round; None where it was not measured."""


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The smallest value that so many percent of all do not exceed; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several rounds, and the least and the most of them."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: Rounds) -> Spread | None:
        """Over the rounds in which it was measured; None of nothing."""
        known = [value for value in values if value is not None]
        return Spread(statistics.median(known), min(known), max(known)) if known else None

    def __str__(self) -> str:
        median, least, most = map(number, (self.median, self.least, self.most))
        return median if least == most else f"{median} ({least} to {most})"


def ratio(mine: float, other: float) -> float:
    return mine / other if other else math.inf


def difference(mine: float, other: float) -> float:
    return mine - other


@dataclass(frozen=True, slots=True)
class Limit:
    """What a figure must keep to; `goal` is its number in docs/benchmarks.md."""

    goal: int
    bound: float
    at_least: bool = False

    def keeps(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A quantity of ours, alone or held against another one of the same rounds."""

    what: str
    unit: str
    ours: Rounds
    against: str = ""
    """What else was measured; empty where the figure stands alone."""
    theirs: Rounds = ()
    how: Callable[[float, float], float] = ratio
    """Makes one number of a pair."""
    limit: Limit | None = None

    @property
    def judged(self) -> Spread | None:
        """What a limit is about: the pairs, or ours alone."""
        if not self.against:
            return Spread.of(self.ours)
        pairs = zip(self.ours, self.theirs, strict=True) if self.ours and self.theirs else ()
        return Spread.of([self.how(a, b) for a, b in pairs if a is not None and b is not None])

    @property
    def met(self) -> bool | None:
        """None where there is no limit, or nothing to hold against it."""
        if self.limit is None or (judged := self.judged) is None:
            return None
        return self.limit.keeps(judged.median)


def number(value: float) -> str:
    """Three digits that count, at most two behind the point, thousands apart."""
    value = round(value, 2) + 0.0  # no minus before a zero
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
