"""What was measured, as a table to read, as JSON, and as panels to plot. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from tests.bench.relay.figures import Metric, Samples, Spread, Verdict, paired, ratio, verdicts
from tests.bench.relay.measure import Results
from tests.bench.relay.peers import DIRECT
from tests.bench.relay.plot import Panel, number

_COLUMNS: Final = (
    (Metric.CPU_PER_REQUEST, "CPU/request µs"),
    (Metric.REQUESTS_PER_SECOND, "requests/s"),
    (Metric.LATENCY_P99, "p99 ms"),
    (Metric.ADDED_FIRST_BYTE, "first byte +ms"),
    (Metric.FIRST_BYTE_P99, "its p99 ms"),
    (Metric.CPU_PER_EVENT, "CPU/event µs"),
    (Metric.GAP_P50, "gap p50 ms"),
    (Metric.GAP_P99, "gap p99 ms"),
    (Metric.MEMORY_IDLE, "idle MB"),
    (Metric.MEMORY_100, "100 streams MB"),
    (Metric.MEMORY_1000, "1,000 streams MB"),
    (Metric.UPLOAD, "up MB/s"),
    (Metric.UPLOAD_MEMORY, "up +MB"),
    (Metric.DOWNLOAD, "down MB/s"),
    (Metric.DOWNLOAD_MEMORY, "down +MB"),
)
_FAILURES: Final = (Metric.FAILED_REQUESTS, Metric.FAILED_STREAMS, Metric.FAILED_OF_1000)
_RATIOS: Final = (Metric.CPU_PER_REQUEST, Metric.CPU_PER_EVENT, Metric.MEMORY_1000)
_BASES: Final = ("nginx", "aiohttp", "llama-swap")
_PANELS: Final = (
    (Metric.CPU_PER_REQUEST, "CPU time of the proxy per small request", "µs"),
    (Metric.CPU_PER_EVENT, "CPU time of the proxy per streamed event", "µs"),
    (Metric.ADDED_FIRST_BYTE, "Added median time to first byte, one connection", "ms"),
    (Metric.MEMORY_1000, "Resident memory at 1,000 streams", "MB"),
)


def spread_of(samples: Samples, metric: Metric) -> Spread | None:
    """Over the rounds in which it was measured."""
    return Spread.of([value for value in samples.get(metric, ()) if value is not None])


def document(results: Results, about: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "about": about,
        "missing": results.missing,
        "failures": results.failures,
        "samples": {peer: dict(samples) for peer, samples in results.samples.items()},
        "medians": {
            peer: {
                metric: asdict(spread)
                for metric in samples
                if (spread := spread_of(samples, metric)) is not None
            }
            for peer, samples in results.samples.items()
        },
        "ratios": {
            base: {
                peer: {metric: asdict(spread) for metric, spread in _ratios(results, peer, base).items()}
                for peer in results.samples
            }
            for base in _BASES
            if base in results.samples
        },
        "limits": [_limit(verdict) for verdict in verdicts(results.samples)],
    }


def text(results: Results) -> str:
    """Everything, to read."""
    lines = _table(
        ["", *(title for _, title in _COLUMNS)],
        [
            [peer, *(_cell(spread_of(samples, metric)) for metric, _ in _COLUMNS)]
            for peer, samples in results.samples.items()
        ],
    )
    for base in _BASES:
        if base in results.samples:
            lines += ["", f"as ratios to {base}, with the least and the most of the rounds"]
            lines += _table(
                ["", *_RATIOS],
                [
                    [peer, *(_with_spread(_ratios(results, peer, base).get(metric)) for metric in _RATIOS)]
                    for peer in results.samples
                ],
            )
    lines += ["", *(_failed(peer, samples) for peer, samples in results.samples.items())]
    lines += [f"{peer} is missing: {reason}" for peer, reason in results.missing.items()]
    lines += [f"failed: {failure}" for failure in results.failures]
    lines += ["", *(_line(verdict) for verdict in verdicts(results.samples))]
    return "\n".join(line for line in lines if line is not None) + "\n"


def panels(results: Results) -> list[Panel]:
    """What the plot shows."""
    return [
        Panel(
            title,
            unit,
            {
                peer: spread
                for peer, samples in results.samples.items()
                if peer != DIRECT and (spread := spread_of(samples, metric)) is not None
            },
        )
        for metric, title, unit in _PANELS
    ]


def _ratios(results: Results, peer: str, base: str) -> dict[Metric, Spread]:
    mine, other = results.samples[peer], results.samples[base]
    found = {
        metric: paired(mine[metric], other[metric], ratio)
        for metric in _RATIOS
        if metric in mine and metric in other
    }
    return {metric: spread for metric, spread in found.items() if spread is not None}


def _limit(verdict: Verdict) -> dict[str, Any]:
    limit = verdict.limit
    return {
        "line": limit.line,
        "what": limit.text,
        "bound": limit.bound,
        "at_least": limit.at_least,
        "measured": asdict(verdict.measured) if verdict.measured else None,
        "met": verdict.met,
    }


def _line(verdict: Verdict) -> str:
    limit = verdict.limit
    word = {True: "met", False: "NOT MET", None: "not measured"}[verdict.met]
    bound = f"{'≥' if limit.at_least else '≤'} {limit.bound:g}"
    return f"{limit.line}. {word:12}  {limit.text}: {_with_spread(verdict.measured)}, limit {bound}"


def _failed(peer: str, samples: Samples) -> str | None:
    """One line for a peer of which anything failed."""
    sums = {metric: sum(value or 0 for value in samples.get(metric, ())) for metric in _FAILURES}
    told = ", ".join(f"{metric} {count:.0f}" for metric, count in sums.items() if count)
    return f"{peer}: {told}" if told else None


def _cell(spread: Spread | None) -> str:
    return "-" if spread is None else number(spread.median)


def _with_spread(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return f"{number(spread.median)} ({number(spread.least)} to {number(spread.most)})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str | None]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *rows)
    ]
