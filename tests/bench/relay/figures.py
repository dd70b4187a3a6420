"""Percentiles, ratios of pairs, and limits. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


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
    def of(values: Sequence[float]) -> Spread | None:
        """None of nothing."""
        return Spread(statistics.median(values), min(values), max(values)) if values else None


def paired(
    mine: Sequence[float | None],
    other: Sequence[float | None],
    how: Callable[[float, float], float],
) -> Spread | None:
    """`how` of what was measured in the same round, round for round."""
    return Spread.of([how(a, b) for a, b in zip(mine, other, strict=True) if a is not None and b is not None])


def ratio(mine: float, other: float) -> float:
    return mine / other if other else math.inf


def difference(mine: float, other: float) -> float:
    return mine - other


class Metric(StrEnum):
    """What a round measures of each peer; the value is its name in the JSON document."""

    CPU_PER_REQUEST = "cpu_us_per_request"
    REQUESTS_PER_SECOND = "requests_per_second"
    LATENCY_P99 = "latency_p99_ms"
    FAILED_REQUESTS = "failed_requests"
    FIRST_BYTE_P50 = "first_byte_p50_ms"
    FIRST_BYTE_P90 = "first_byte_p90_ms"
    FIRST_BYTE_P99 = "first_byte_p99_ms"
    ADDED_FIRST_BYTE = "added_first_byte_ms"
    CPU_PER_EVENT = "cpu_us_per_event"
    GAP_P50 = "gap_p50_ms"
    GAP_P99 = "gap_p99_ms"
    FAILED_STREAMS = "failed_streams"
    MEMORY_IDLE = "memory_idle_mb"
    MEMORY_100 = "memory_100_streams_mb"
    MEMORY_1000 = "memory_1000_streams_mb"
    KB_PER_STREAM = "kb_per_stream"
    FAILED_OF_1000 = "failed_of_1000_streams"
    UPLOAD = "upload_mb_per_second"
    UPLOAD_MEMORY = "upload_more_memory_mb"
    DOWNLOAD = "download_mb_per_second"
    DOWNLOAD_MEMORY = "download_more_memory_mb"


Samples = Mapping[Metric, Sequence[float | None]]
"""By metric, one value for each round; None where it was not measured."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Something that must hold: a figure of ours, alone or against a peer's of the same round."""

    line: int
    metric: Metric
    text: str
    bound: float
    against: str | None = None
    how: Callable[[float, float], float] = ratio
    at_least: bool = False


LIMITS = (
    Limit(1, Metric.CPU_PER_REQUEST, "CPU per small request / nginx", 4, "nginx"),
    Limit(1, Metric.CPU_PER_REQUEST, "CPU per small request / the usual aiohttp proxy", 0.25, "aiohttp"),
    Limit(1, Metric.CPU_PER_EVENT, "CPU per streamed event / nginx", 1.5, "nginx"),
    Limit(1, Metric.ADDED_FIRST_BYTE, "added median time to first byte, ms", 0.3),
    Limit(1, Metric.GAP_P99, "p99 of event gaps − nginx's, ms", 2, "nginx", difference),
    Limit(2, Metric.CPU_PER_REQUEST, "CPU per small request / llama-swap", 1, "llama-swap"),
    Limit(2, Metric.CPU_PER_EVENT, "CPU per streamed event / llama-swap", 1, "llama-swap"),
    Limit(2, Metric.ADDED_FIRST_BYTE, "added time to first byte / llama-swap", 1, "llama-swap"),
    Limit(2, Metric.MEMORY_1000, "memory at 1,000 streams / llama-swap", 1, "llama-swap"),
    Limit(3, Metric.FAILED_OF_1000, "failed of 1,000 streams", 0),
    Limit(3, Metric.MEMORY_IDLE, "idle memory, MB", 70),
    Limit(3, Metric.KB_PER_STREAM, "memory of each further stream, KB", 60),
    Limit(3, Metric.UPLOAD_MEMORY, "more memory while 200 MB go up, MB", 16),
    Limit(3, Metric.DOWNLOAD_MEMORY, "more memory while 200 MB come down, MB", 16),
    Limit(3, Metric.UPLOAD, "throughput of an upload / nginx", 0.5, "nginx", at_least=True),
    Limit(3, Metric.DOWNLOAD, "throughput of a download / nginx", 0.5, "nginx", at_least=True),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A limit and what was measured; `met` is None where it could not be."""

    limit: Limit
    measured: Spread | None

    @property
    def met(self) -> bool | None:
        if self.measured is None:
            return None
        if self.limit.at_least:
            return self.measured.median >= self.limit.bound
        return self.measured.median <= self.limit.bound


def verdicts(samples: Mapping[str, Samples], ours: str = "lemonpod") -> list[Verdict]:
    """Every limit, held against the samples by peer."""
    return [Verdict(limit, _measured(limit, samples, ours)) for limit in LIMITS]


def _measured(limit: Limit, samples: Mapping[str, Samples], ours: str) -> Spread | None:
    mine = samples.get(ours, {}).get(limit.metric, ())
    if limit.against is None:
        return Spread.of([value for value in mine if value is not None])
    other = samples.get(limit.against, {}).get(limit.metric, ())
    return paired(mine, other, limit.how) if mine and other else None
