"""What a round measures of each peer, and which figures of ours come of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tests.bench.figures import OURS, Figure, Limit, Rounds, Spread, difference, ratio
from tests.bench.plot import Panel
from tests.bench.report import Table, cell, panel

DIRECT: Final = "direct"


class Metric(StrEnum):
    """The value is its name in the JSON document."""

    CPU_PER_REQUEST = "cpu_us_per_request"
    REQUESTS_PER_SECOND = "requests_per_second"
    LATENCY_P50 = "latency_p50_ms"
    LATENCY_P90 = "latency_p90_ms"
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


Samples = Mapping[Metric, Rounds]
"""Of one peer, by metric."""

_TITLES: Final[Mapping[Metric, str]] = {
    Metric.CPU_PER_REQUEST: "CPU of a small request, µs",
    Metric.REQUESTS_PER_SECOND: "small requests a second",
    Metric.LATENCY_P50: "their latency p50, ms",
    Metric.LATENCY_P90: "their latency p90, ms",
    Metric.LATENCY_P99: "their latency p99, ms",
    Metric.FAILED_REQUESTS: "of them failed",
    Metric.ADDED_FIRST_BYTE: "added time to first byte, ms",
    Metric.FIRST_BYTE_P50: "time to first byte p50, ms",
    Metric.FIRST_BYTE_P90: "time to first byte p90, ms",
    Metric.FIRST_BYTE_P99: "time to first byte p99, ms",
    Metric.CPU_PER_EVENT: "CPU of a streamed event, µs",
    Metric.GAP_P50: "gap of events p50, ms",
    Metric.GAP_P99: "gap of events p99, ms",
    Metric.FAILED_STREAMS: "streams that failed",
    Metric.MEMORY_IDLE: "memory idle, MB",
    Metric.MEMORY_100: "memory at 100 streams, MB",
    Metric.MEMORY_1000: "memory at 1,000 streams, MB",
    Metric.KB_PER_STREAM: "memory of a further stream, KB",
    Metric.FAILED_OF_1000: "of 1,000 streams failed",
    Metric.DOWNLOAD: "200 MB down, MB/s",
    Metric.DOWNLOAD_MEMORY: "memory that it takes, MB",
    Metric.UPLOAD: "200 MB up, MB/s",
    Metric.UPLOAD_MEMORY: "memory that it takes, MB",
}


@dataclass(frozen=True, slots=True)
class _Held:
    """A metric of ours, and what it is held against."""

    metric: Metric
    what: str
    unit: str
    against: str = ""
    limit: Limit | None = None
    how: Callable[[float, float], float] = ratio


_HELD: Final = (
    _Held(Metric.CPU_PER_REQUEST, "CPU of a small request", "µs", "nginx", Limit(1, 4)),
    _Held(Metric.CPU_PER_REQUEST, "CPU of a small request", "µs", "aiohttp", Limit(1, 0.25)),
    _Held(Metric.CPU_PER_REQUEST, "CPU of a small request", "µs", "aiohttp+uvloop"),
    _Held(Metric.CPU_PER_REQUEST, "CPU of a small request", "µs", "litellm"),
    _Held(Metric.CPU_PER_EVENT, "CPU of a streamed event", "µs", "nginx", Limit(1, 1.5)),
    _Held(Metric.CPU_PER_EVENT, "CPU of a streamed event", "µs", "aiohttp"),
    _Held(Metric.CPU_PER_EVENT, "CPU of a streamed event", "µs", "aiohttp+uvloop"),
    _Held(Metric.CPU_PER_EVENT, "CPU of a streamed event", "µs", "litellm"),
    _Held(Metric.ADDED_FIRST_BYTE, "added time to first byte", "ms", limit=Limit(1, 0.3)),
    _Held(Metric.GAP_P99, "gap of events p99", "ms", "nginx", Limit(1, 2), difference),
    _Held(Metric.CPU_PER_REQUEST, "CPU of a small request", "µs", "llama-swap", Limit(2, 1)),
    _Held(Metric.CPU_PER_EVENT, "CPU of a streamed event", "µs", "llama-swap", Limit(2, 1)),
    _Held(Metric.ADDED_FIRST_BYTE, "added time to first byte", "ms", "llama-swap", Limit(2, 1)),
    _Held(Metric.MEMORY_1000, "memory at 1,000 streams", "MB", "llama-swap", Limit(2, 1)),
    _Held(Metric.FAILED_OF_1000, "of 1,000 streams failed", "streams", limit=Limit(3, 0)),
    _Held(Metric.MEMORY_IDLE, "memory idle", "MB", limit=Limit(3, 70)),
    _Held(Metric.KB_PER_STREAM, "memory of a further stream", "KB", limit=Limit(3, 60)),
    _Held(Metric.UPLOAD_MEMORY, "more memory while 200 MB go up", "MB", limit=Limit(3, 16)),
    _Held(Metric.DOWNLOAD_MEMORY, "more memory while 200 MB come down", "MB", limit=Limit(3, 16)),
    _Held(Metric.UPLOAD, "200 MB up", "MB/s", "nginx", Limit(3, 0.5, at_least=True)),
    _Held(Metric.DOWNLOAD, "200 MB down", "MB/s", "nginx", Limit(3, 0.5, at_least=True)),
)
_PANELS: Final = (
    (Metric.CPU_PER_REQUEST, "CPU of a small request", "µs"),
    (Metric.CPU_PER_EVENT, "CPU of a streamed event", "µs"),
    (Metric.ADDED_FIRST_BYTE, "Added time to first byte", "ms"),
    (Metric.MEMORY_1000, "Memory at 1,000 streams", "MB"),
)


def figures(samples: Mapping[str, Samples]) -> list[Figure]:
    """What is to be told of ours; of peers that were measured, and of those that have a limit."""
    return [
        Figure(
            what=held.what,
            unit=held.unit,
            ours=_rounds(samples, OURS, held.metric),
            against=held.against,
            theirs=_rounds(samples, held.against, held.metric),
            how=held.how,
            limit=held.limit,
        )
        for held in _HELD
        if held.limit is not None or held.against in samples
    ]


def table(samples: Mapping[str, Samples]) -> Table:
    """A line for each metric, a column for each peer."""
    return Table(
        ["", *samples],
        [
            [title, *(cell(Spread.of(of_peer.get(metric, ()))) for of_peer in samples.values())]
            for metric, title in _TITLES.items()
        ],
    )


def panels(samples: Mapping[str, Samples]) -> list[Panel]:
    """What the plot shows of the peers."""
    return [
        panel(
            title,
            unit,
            {name: Spread.of(of_peer.get(metric, ())) for name, of_peer in samples.items() if name != DIRECT},
        )
        for metric, title, unit in _PANELS
    ]


def _rounds(samples: Mapping[str, Samples], peer: str, metric: Metric) -> Sequence[float | None]:
    return samples.get(peer, {}).get(metric, ())
