"""What benches have found, as text to read and as JSON for programs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tests.bench.figures import OURS, Figure, Spread, difference, ratio
from tests.bench.plot import Panel

_SIGNS: Final[Mapping[Callable[[float, float], float], str]] = {ratio: "×", difference: "Δ"}
_FIGURES_HEAD: Final = ("", OURS, "against", "", "in a round", "limit", "")


@dataclass(frozen=True, slots=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one bench has found."""

    name: str
    figures: Sequence[Figure] = ()
    table: Table | None = None
    """What is measured of many side by side."""
    panels: Sequence[Panel] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    """What could not be had, and why."""
    failures: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    """What programs are told beyond the figures."""


def text(reports: Sequence[Report]) -> str:
    """Everything to read: the medians, and in brackets the least and the most of the rounds."""
    parts = [_lines(report.table) for report in reports if report.table]
    rows = [_row(figure) for report in reports for figure in report.figures]
    if rows:
        parts.append(_lines(Table(_FIGURES_HEAD, rows)))
    remarks = [
        *(f"{name} is missing: {why}" for report in reports for name, why in report.missing.items()),
        *(f"failed: {failure}" for report in reports for failure in report.failures),
    ]
    if remarks:
        parts.append(remarks)
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def document(reports: Sequence[Report], about: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "about": about,
        **{
            report.name: {
                "figures": [_object(figure) for figure in report.figures],
                "missing": report.missing,
                "failures": report.failures,
                **report.data,
            }
            for report in reports
        },
    }


def panel(title: str, unit: str, values: Mapping[str, Spread | None]) -> Panel:
    """Of those that were measured."""
    return Panel(title, unit, {name: spread for name, spread in values.items() if spread is not None})


def cell(spread: Spread | None) -> str:
    return "-" if spread is None else str(spread)


def _row(figure: Figure) -> tuple[str, ...]:
    limit, met = figure.limit, figure.met
    word = "" if limit is None else {True: "met", False: "NOT MET", None: "not measured"}[met]
    return (
        f"{figure.what}, {figure.unit}",
        cell(Spread.of(figure.ours)),
        figure.against,
        cell(Spread.of(figure.theirs)) if figure.against else "",
        f"{_SIGNS[figure.how]} {judged}" if figure.against and (judged := figure.judged) else "",
        "" if limit is None else f"{limit.goal}: {limit}",
        word,
    )


def _object(figure: Figure) -> dict[str, Any]:
    judged, limit = figure.judged, figure.limit
    return {
        "what": figure.what,
        "unit": figure.unit,
        "ours": list(figure.ours),
        "against": figure.against or None,
        "theirs": list(figure.theirs),
        "pairs": figure.how.__name__ if figure.against else None,
        "judged": asdict(judged) if judged else None,
        "limit": asdict(limit) if limit else None,
        "met": figure.met,
    }


def _lines(table: Table) -> list[str]:
    return list(_aligned([table.head, *table.rows]))


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
