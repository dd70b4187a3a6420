"""Places inside a document: how they are written, and in which order they come."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from lemonpod.errors import Problem

Path: TypeAlias = tuple[str | int, ...]

MAX_PROBLEMS: Final = 50
"""More than anybody reads; a file of a million mistakes must not cost a million messages."""

_PLAIN_KEY: Final = re.compile(r"[\w*?$-]+")
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and the path it is at, before it is put in order and written out."""

    path: Path
    message: str
    hint: str | None = None


def location(path: Path) -> str:
    """`path` as people write it: `platforms.linux.rocm.args[3]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{shown(step)}"]'
    return text


def shown(value: object) -> str:
    """`value` for a message: one line, not too long, printable on every terminal."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):  # more digits than Python prints, or deeper than it goes
        text = f"a very large {type(value).__name__}"
    if isinstance(value, str):
        text = text[1:-1]
    return printable(text, _SHOWN)


def printable(text: str, longest: int = 400) -> str:
    """`text` cut to a length that people read, without what a terminal cannot encode."""
    if len(text) > longest:
        text = f"{text[:longest]}…"
    return text.encode("utf-8", "backslashreplace").decode()


def in_document_order(findings: Iterable[Finding], document: object) -> tuple[Problem, ...]:
    """The findings as problems, each said once, in the order of the places they are at."""
    positions = _Positions()
    ordered = sorted(dict.fromkeys(findings), key=lambda finding: positions.of(finding.path, document))
    problems = [
        Problem(location=location(finding.path), message=finding.message, hint=finding.hint)
        for finding in ordered[:MAX_PROBLEMS]
    ]
    if (more := len(ordered) - MAX_PROBLEMS) > 0:
        problems.append(Problem(location="", message=f"and {more} more problems"))
    return tuple(problems)


class _Positions:
    """Where keys stand in their objects, looked up once an object."""

    def __init__(self) -> None:
        self._orders: dict[int, dict[str, int]] = {}

    def of(self, path: Path, document: object) -> tuple[int, ...]:
        position: list[int] = []
        value = document
        for step in path:
            if isinstance(step, str) and isinstance(value, Mapping) and step in value:
                position.append(self._order(value)[step])
                value = value[step]
            elif isinstance(step, int) and isinstance(value, list) and step < len(value):
                position.append(step)
                value = value[step]
            else:
                break
        return tuple(position)

    def _order(self, value: Mapping[str, object]) -> dict[str, int]:
        if (order := self._orders.get(id(value))) is None:
            order = self._orders[id(value)] = {key: index for index, key in enumerate(value)}
        return order
