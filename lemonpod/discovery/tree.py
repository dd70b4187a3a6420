"""What JSON and YAML share: a document is read into a tree with marks, and one walk refuses all of them.

A parser sees a duplicate key or a number out of range without knowing where in the document it is. So it
leaves a mark in the tree, and the walk, which does know, tells of every mark with its path.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from lemonpod.contract.location import Finding, Path, in_document_order, shown
from lemonpod.errors import ManifestError

MAX_DEPTH: Final = 64
"""A manifest needs nine levels; options and extensions may bring their own."""
MAX_NUMBER: Final = 100
"""Characters of a number: no option needs more, and Python refuses to convert some thousand digits."""
_MOST_FINDINGS: Final = 1000
"""Where a document is that wrong, the rest of it is not worth the time."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Stands in the tree for a value that no manifest may hold."""

    message: str
    hint: str | None = None


class Members(dict[str, object]):
    """An object of the document, and what is wrong with its keys; `None` stands for no usable key."""

    __slots__ = ("refused_keys",)

    def __init__(self, pairs: Iterable[tuple[str, object]]) -> None:
        super().__init__()
        self.refused_keys: list[tuple[str | None, Refused]] = []
        for key, value in pairs:
            if key in self:
                self.refused_keys.append((key, Refused(f"duplicate key '{shown(key)}'", "keep one of them")))
            self[key] = value


def number(text: str) -> int | float | Refused:
    """The number that `text`, of JSON's number grammar, is."""
    if len(text) > MAX_NUMBER:
        return Refused(f"a number of {len(text)} characters is too long")
    try:
        return int(text)
    except ValueError:
        value = float(text)
    return value if math.isfinite(value) else Refused(f"{text} is out of range")


def accepted(tree: object) -> object:
    """`tree` as plain JSON values; raises ManifestError with everything in it that is refused."""
    if findings := list(islice(_refusals(tree, ()), _MOST_FINDINGS)):
        raise ManifestError(in_document_order(findings, tree))
    return _plain(tree)


def _refusals(value: object, path: Path) -> Iterator[Finding]:
    match value:
        case dict() | list() if len(path) >= MAX_DEPTH:
            yield Finding(path[:1], f"nested deeper than {MAX_DEPTH} levels")
        case Refused():
            yield Finding(path, value.message, value.hint)
        case str() if not _encodes(value):
            yield Finding(path, "a lone surrogate is not a character", "write the whole character")
        case Members():
            for key, refused in value.refused_keys:
                yield Finding(path if key is None else (*path, key), refused.message, refused.hint)
            for key, member in value.items():
                if not _encodes(key):
                    yield Finding((*path, key), f"a lone surrogate in the key '{shown(key)}'")
                yield from _refusals(member, (*path, key))
        case list():
            for index, element in enumerate(value):
                yield from _refusals(element, (*path, index))


def _plain(value: object) -> object:
    if isinstance(value, Members):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_plain(element) for element in value]
    return value


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
