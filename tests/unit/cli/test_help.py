"""What `--help` says, in a terminal of the usual width."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.testing import CliRunner

from lemonpod.cli.app import app


def groups(command: Any, *words: str) -> list[tuple[str, ...]]:
    """The words that lead to every command with commands of its own."""
    inner = getattr(command, "commands", {})
    return [words][: len(inner)] + [one for name, c in inner.items() for one in groups(c, *words, name)]


def test_no_summary_of_a_command_is_cut() -> None:
    every = groups(typer.main.get_command(app))
    assert len(every) > 3

    for words in every:
        text = CliRunner().invoke(app, [*words, "--help"], terminal_width=80).stdout
        rows = re.findall(r"^  ([a-z-]+) +(.*)$", text.partition("Commands:\n")[2], re.MULTILINE)
        assert rows, text
        assert [row for row in rows if row[1].endswith("...") or not row[1]] == []
