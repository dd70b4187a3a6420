"""YAML as a notation of JSON: the tree of one document, built from the parser's events.

A plain scalar is null, a boolean or a number where YAML 1.2 and JSON agree that it is one, and text
otherwise: `yes`, `0x1F`, `012`, `1_000`, `12:30` and `2026-01-01` stay as they are written. Anchors,
aliases, merge keys, tags and further documents are refused, so that what is read is what is seen. No
constructor of PyYAML runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import yaml

from lemonpod.discovery.tree import MAX_DEPTH, Members, Refused, number
from lemonpod.errors import ManifestError, Problem

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times faster

_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_NOT_A_NUMBER: Final = re.compile(r"[-+]?\.inf|\.nan", re.IGNORECASE)
_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def yaml_tree(text: str) -> object:
    """The tree of the one document in `text`; raises ManifestError where it is not YAML."""
    try:
        return _document(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        problem = error.problem or error.context or "it does not parse"
        hint = "indent with spaces, not tabs" if "cannot start any token" in problem else None
        _refuse(problem, error.problem_mark or error.context_mark, hint)
    except yaml.YAMLError as error:
        _refuse(str(error).splitlines()[0], None)


def _document(events: Iterator[yaml.Event]) -> object:
    tree: object = None
    documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                _refuse("a second document", event.start_mark, "a manifest file holds one")
            tree = _value(next(events), events, depth=0)
    if not documents:
        _refuse("the file is empty", None)
    return tree


def _value(event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> object:
    """The value that begins with `event`; takes the rest of it from `events`."""
    if depth >= MAX_DEPTH and isinstance(event, yaml.CollectionStartEvent):
        _refuse(f"nested deeper than {MAX_DEPTH} levels", event.start_mark)
    refused = _refused_notation(event)
    value: object
    match event:
        case yaml.ScalarEvent():
            value = _scalar(event)
        case yaml.SequenceStartEvent():
            value = _sequence(events, depth)
        case yaml.MappingStartEvent():
            value = _mapping(events, depth)
        case _:  # an alias, which is refused
            value = None
    return refused or value


def _sequence(events: Iterator[yaml.Event], depth: int) -> list[object]:
    elements: list[object] = []
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        elements.append(_value(event, events, depth + 1))
    return elements


def _mapping(events: Iterator[yaml.Event], depth: int) -> Members:
    pairs: list[tuple[str, object]] = []
    refused: list[Refused] = []
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        line = _line(event.start_mark)
        key = _value(event, events, depth + 1)
        value = _value(next(events), events, depth + 1)
        if isinstance(key, Refused):
            refused.append(key)
        elif not isinstance(key, str):
            refused.append(Refused(f"line {line}: a key must be a text", "quote it"))
        elif key == "<<" and not getattr(event, "style", None):
            refused.append(Refused(f"line {line}: a merge key is not allowed", "write the fields out"))
        else:
            pairs.append((key, value))
    members = Members(pairs)
    members.refused_keys += [(None, mark) for mark in refused]
    return members


def _scalar(event: yaml.ScalarEvent) -> object:
    text = event.value
    if event.style:  # quoted, or a block: text by its notation
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return number(text)
    if _NOT_A_NUMBER.fullmatch(text):
        return Refused(f"{text} is not a JSON number", "quote it if it is a text")
    return text


def _refused_notation(event: yaml.Event) -> Refused | None:
    line = _line(event.start_mark)
    if isinstance(event, yaml.AliasEvent):
        return Refused(f"line {line}: an alias is not allowed", "write the value out")
    if getattr(event, "anchor", None) is not None:
        return Refused(f"line {line}: an anchor is not allowed", "remove it")
    if (tag := getattr(event, "tag", None)) is not None:
        return Refused(f"line {line}: the tag {tag} is not allowed", "quote a text that looks like a number")
    return None


def _line(mark: Any) -> int:
    return int(mark.line) + 1


def _refuse(problem: str, mark: Any, hint: str | None = None) -> NoReturn:
    where = f" at line {_line(mark)}, column {mark.column + 1}" if mark else ""
    raise ManifestError(
        [Problem(location="", message=f"invalid YAML{where}: {problem}", hint=hint)]
    ) from None
