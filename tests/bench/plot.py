"""Bars as SVG, for a page that may be light or dark. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tests.bench.figures import OURS, Spread, number

_COLUMNS: Final = 2
_WIDTH: Final = 430
_LABEL: Final = 112
_VALUE: Final = 60
_ROW: Final = 20
_BAR: Final = 12
_TITLE: Final = 30
_GAP: Final = 20
_OUR_COLOUR: Final = "#d9a400"
_OTHERS: Final = "#7a8b99"
_TEXT: Final = "#6b7680"  # readable on white and on black
_REACH: Final = "#2f6db3"
"""From the least to the most, across a bar and beyond its end."""
_TO_SCALE: Final = 100.0
"""When the most is more than so many times the least, lengths are logarithms."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One quantity of everyone; less is better."""

    title: str
    unit: str
    values: Mapping[str, Spread]


def plot(title: str, panels: Sequence[Panel]) -> str:
    """One SVG document, two panels in a row; those without values are left out."""
    drawn = [_panel(panel) for panel in panels if panel.values]
    parts, top = [], _TITLE + 4
    for first in range(0, len(drawn), _COLUMNS):
        row = drawn[first : first + _COLUMNS]
        for column, (_, lines) in enumerate(row):
            left = column * (_WIDTH + _GAP)
            parts.append(f'<g transform="translate({left} {top})">{"".join(lines)}</g>')
        top += max(height for height, _ in row) + _GAP
    width = _COLUMNS * _WIDTH + (_COLUMNS - 1) * _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" '
        f'height="{top}" font-family="sans-serif" font-size="12" fill="{_TEXT}" role="img">'
        f"<title>{escape(title)}</title>"
        f'<text x="0" y="16" font-size="15" font-weight="bold">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )


def _panel(panel: Panel) -> tuple[int, list[str]]:
    """Its height, and its elements."""
    scale = _Scale.of(panel)
    note = f"{panel.title}, {panel.unit}{' (logarithmic)' if scale.by_log else ''}"
    lines = [f'<text x="0" y="12" font-weight="bold">{escape(note)}</text>']
    for row, (name, spread) in enumerate(panel.values.items()):
        top = _TITLE - 8 + row * _ROW
        base, middle = top + _BAR - 2, top + _BAR / 2
        length, least, most = map(scale.length, (spread.median, spread.least, spread.most))
        colour, weight = (_OUR_COLOUR, ' font-weight="bold"') if name == OURS else (_OTHERS, "")
        end = _LABEL + max(length, most) + 6
        lines += [
            f'<text x="{_LABEL - 8}" y="{base}" text-anchor="end"{weight}>{escape(name)}</text>',
            f'<rect x="{_LABEL}" y="{top}" width="{length:.1f}" height="{_BAR}" rx="2" fill="{colour}"/>',
            f'<path d="M{_LABEL + least:.1f} {middle}H{_LABEL + most:.1f}" stroke="{_REACH}"/>',
            f'<text x="{end:.1f}" y="{base}"{weight}>{number(spread.median)}</text>',
        ]
    return _TITLE - 8 + len(panel.values) * _ROW, lines


@dataclass(frozen=True, slots=True)
class _Scale:
    least: float
    most: float
    by_log: bool

    @staticmethod
    def of(panel: Panel) -> _Scale:
        spreads = panel.values.values()
        least = min((spread.median for spread in spreads if spread.median > 0), default=1.0)
        most = max(*(spread.most for spread in spreads), least)
        return _Scale(least, most, by_log=max(spread.median for spread in spreads) / least > _TO_SCALE)

    def length(self, value: float) -> float:
        """Of a bar that stands for the value; one can always be seen."""
        share = value / self.most
        if self.by_log:
            floor = self.least / 2  # the least of them gets a bar too
            share = math.log(max(value, floor) / floor) / math.log(self.most / floor)
        return max(1.0, share * (_WIDTH - _LABEL - _VALUE))
