"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lemonpod.errors import Problem

if TYPE_CHECKING:
    from rich.table import Table

_NO_EDGE: Final = 1 << 20
"""Characters of a line that is to stay one."""


def print_json(value: Any) -> None:
    """One JSON document on stdout, alone."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a terminal of few characters, or a file name that is no text
        text = json.dumps(value, indent=2, default=str)
    sys.stdout.write(f"{text}\n")


def problems_as_json(problems: Iterable[Problem]) -> list[dict[str, str | None]]:
    """Each problem with its field, reason and hint."""
    return [
        {"field": problem.location, "reason": problem.message, "hint": problem.hint} for problem in problems
    ]


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """A table as wide as its terminal; where the output is no terminal, nothing is cut."""
    if not rows:
        print(empty)
        return
    from rich.console import Console

    table = make_table(columns, rows)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_NO_EDGE)
    console.print(table)


def make_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """The table, not printed yet."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text("-" if cell in (None, "") else printable(str(cell))) for cell in row))
    return table


def printable(text: str) -> str:
    """The text without what a terminal would obey, as escape sequences in a name."""
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """Show that something is going on, where somebody watches."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


@contextmanager
def steps(text: str) -> Iterator[Callable[[str], None]]:
    """As `spinner`, with words for what is done so far; where nobody watches, each is a line on stderr."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda step: print(f"{text}: {step}", file=sys.stderr, flush=True)
        return
    with console.status(text) as status:
        yield lambda step: status.update(Text(f"{text}: {step}"))
