"""Bars as SVG, for a page that may be light or dark. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tests.bench.relay.figures import Spread

_WIDTH: Final = 720
_LABEL: Final = 110
_VALUE: Final = 120
_ROW: Final = 22
_BAR: Final = 14
_TITLE: Final = 30
_GAP: Final = 18
_OURS: Final = "#d9a400"
_OTHERS: Final = "#7a8b99"
_TEXT: Final = "#6b7680"  # readable on white and on black
_TO_SCALE: Final = 100.0
"""When the most is more than so many times the least, lengths are logarithms."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One quantity of every peer; less is better."""

    title: str
    unit: str
    values: Mapping[str, Spread]


def plot(title: str, panels: Sequence[Panel], ours: str = "lemonpod") -> str:
    """One SVG document: a group of bars for each panel that has values."""
    drawn = [_panel(panel, ours) for panel in panels if panel.values]
    parts, top = [], _TITLE + 4
    for height, lines in drawn:
        parts.append(f'<g transform="translate(0 {top})">{"".join(lines)}</g>')
        top += height + _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" '
        f'height="{top}" font-family="sans-serif" font-size="12" fill="{_TEXT}" role="img">'
        f"<title>{escape(title)}</title>"
        f'<text x="0" y="16" font-size="15" font-weight="bold">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )


def _panel(panel: Panel, ours: str) -> tuple[int, list[str]]:
    """Its height, and its elements."""
    least = min((spread.median for spread in panel.values.values() if spread.median > 0), default=1.0)
    most = max(max(spread.median for spread in panel.values.values()), least)
    by_log = most / least > _TO_SCALE
    note = f"{panel.title}, {panel.unit}{' (logarithmic)' if by_log else ''}"
    lines = [f'<text x="0" y="12" font-weight="bold">{escape(note)}</text>']
    for row, (name, spread) in enumerate(panel.values.items()):
        y = _TITLE - 8 + row * _ROW
        room = _WIDTH - _LABEL - _VALUE
        length = max(1.0, room * _share(spread.median, least, most, by_log=by_log))
        colour = _OURS if name == ours else _OTHERS
        weight = ' font-weight="bold"' if name == ours else ""
        middle = y + _BAR - 3
        lines += [
            f'<text x="{_LABEL - 8}" y="{middle}" text-anchor="end"{weight}>{escape(name)}</text>',
            f'<rect x="{_LABEL}" y="{y}" width="{length:.1f}" height="{_BAR}" rx="2" fill="{colour}"/>',
            f'<text x="{_LABEL + length + 6:.1f}" y="{middle}"{weight}>{number(spread.median)}</text>',
        ]
    return _TITLE - 8 + len(panel.values) * _ROW, lines


def _share(value: float, least: float, most: float, *, by_log: bool) -> float:
    if value <= 0:
        return 0.0
    if not by_log:
        return value / most
    floor = least / 2  # the least of them gets a bar too
    return max(0.0, math.log(value / floor) / math.log(most / floor))


def number(value: float) -> str:
    """Three digits that count, at most two behind the point, thousands apart."""
    value = round(value, 2) + 0.0  # no minus before a zero
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
