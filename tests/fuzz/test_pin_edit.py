"""Whatever a manifest looks like, pinning changes the bytes of that image and no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from lemonpod.contract.location import Path
from lemonpod.discovery.read import read_document
from lemonpod.pin.edit import with_image
from lemonpod.pin.literals import literals

OLD, NEW = ("sha256:" + digit * 64 for digit in "12")
IMAGE = "r.example:5000/a/x:1"

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12) | st.just(IMAGE)
keys = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=6)
values = st.recursive(
    texts | st.integers(-9, 9) | st.booleans() | st.none() | st.just(f"{IMAGE}@{OLD}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
spaces = st.text(" \t\n\r", max_size=3)


@st.composite
def documents(draw: st.DrawFn) -> tuple[Any, Path]:
    """A document with an image in it, and where."""
    image = draw(st.sampled_from([IMAGE, f"{IMAGE}@{OLD}"]))
    words = draw(st.lists(values, max_size=3))
    index = draw(st.integers(0, len(words)))
    document = draw(st.dictionaries(keys.filter(lambda key: key != "args"), values, max_size=3))
    members = [*document.items(), ("args", [*words[:index], image, *words[index:]])]
    return dict(draw(st.permutations(members))), ("args", index)


def as_json(value: Any, draw: Draw) -> str:
    """`value` in one of the many ways to write it."""
    before, after = str(draw(spaces)), str(draw(spaces))
    match value:
        case dict():
            members = (f"{as_json(key, draw)}:{as_json(one, draw)}" for key, one in value.items())
            text = f"{{{','.join(members) or draw(spaces)}}}"
        case list():
            text = f"[{','.join(as_json(one, draw) for one in value) or draw(spaces)}]"
        case _:
            text = json.dumps(value, ensure_ascii=draw(st.booleans()))
            if draw(st.booleans()):
                text = text.replace("/", "\\/")
    return before + text + after


def as_yaml(value: Any, draw: Draw) -> str:
    """As lines below what holds it, or flowing behind it; texts in one of the three notations of a line."""
    if isinstance(value, list) and value and draw(st.booleans()):
        lines = (f"- {as_flow(one, draw)}" for one in value)
        comment = draw(st.sampled_from(["", f" # {IMAGE}"]))
        return f"{comment}\n" + "\n".join(lines)
    if isinstance(value, list):
        return f"[ {', '.join(as_flow(one, draw) for one in value)} ]"
    return as_flow(value, draw)


def as_flow(value: Any, draw: Draw) -> str:
    if isinstance(value, str) and value.startswith(IMAGE):
        return str(draw(st.sampled_from([value, f"'{value}'", f'"{value}"'])))
    if isinstance(value, str) and draw(st.booleans()):
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value, ensure_ascii=False)


def check(text: str, path: Path, suffix: str) -> None:
    data = text.encode()
    document: Any = read_document(data, suffix=suffix)
    old = document["args"][path[1]]
    start = literals(text, suffix=suffix)[path].start

    edited = with_image(data, path, old, f"{IMAGE}@{NEW}", suffix=suffix).decode()

    same = len(text[:start].encode())
    assert edited.encode()[:same] == data[:same]
    assert edited[start:].replace(f"@{NEW}", old[len(IMAGE) :], 1) == text[start:]
    document["args"][path[1]] = f"{IMAGE}@{NEW}"
    assert read_document(edited.encode(), suffix=suffix) == document


@given(documents(), st.data())
def test_json(document: tuple[Any, Path], data: st.DataObject) -> None:
    value, path = document
    check(as_json(value, data.draw), path, ".json")


@given(documents(), st.data())
def test_yaml(document: tuple[Any, Path], data: st.DataObject) -> None:
    value, path = document
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    lines = [
        f"{json.dumps(key, ensure_ascii=False)}: {as_yaml(one, data.draw)}" for key, one in value.items()
    ]
    text = "\n".join(["# 😀", *lines, ""]).replace("\n", newline)
    check(text, path, ".yaml")
