"""Where the texts of a document stand in its file, so that one can be shown or changed and no other byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from lemonpod.contract.location import Path as DocumentPath

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_JSON_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]')


@dataclass(frozen=True, slots=True)
class Literal:
    """The notation of one text: `start` to `end` in the file's text, quotes included."""

    start: int
    end: int
    quote: str
    """What it begins with: a quote, `|` or `>` of a block, or nothing where it is plain."""


def literals(text: str, *, suffix: str) -> dict[DocumentPath, Literal]:
    """The texts of an accepted document, by their paths; of YAML also its plain numbers and words."""
    if suffix.lower() == ".json":
        return dict(_json_literals(text))
    return dict(_yaml_literals(yaml.compose(text, Loader=_LOADER), ()))


def _json_literals(text: str) -> Iterator[tuple[DocumentPath, Literal]]:
    path: list[str | int | None] = []  # None where an object's next key is to come
    for token in _JSON_TOKEN.finditer(text):
        match token[0][0]:
            case "{":
                path.append(None)
            case "[":
                path.append(0)
            case "}" | "]":
                path.pop()
            case ",":
                last = path.pop()
                path.append(last + 1 if isinstance(last, int) else None)
            case _ if path and path[-1] is None:
                path[-1] = json.loads(token[0])
            case quote:
                steps = tuple(step for step in path if step is not None)
                yield steps, Literal(token.start(), token.end(), quote)


def _yaml_literals(node: yaml.Node | None, path: DocumentPath) -> Iterator[tuple[DocumentPath, Literal]]:
    match node:
        case yaml.MappingNode():
            for key, value in node.value:
                yield from _yaml_literals(value, (*path, key.value))
        case yaml.SequenceNode():
            for index, value in enumerate(node.value):
                yield from _yaml_literals(value, (*path, index))
        case yaml.ScalarNode():
            yield path, Literal(node.start_mark.index, node.end_mark.index, node.style or "")
