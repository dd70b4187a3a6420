"""One image changed, and no other byte."""

from __future__ import annotations

import json

import pytest

from lemonpod.pin.edit import EditError, with_image
from lemonpod.pin.literals import literals

OLD, NEW = ("sha256:" + digit * 64 for digit in "12")
PATH = ("args", 1)


def edited(text: str, old: str, new: str, suffix: str = ".json") -> str:
    return with_image(text.encode(), PATH, old, new, suffix=suffix).decode()


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ('{"args":["run","r.io/x:1"]}', ".json"),
        ('{"args": [\r\n\t"run",\r\n\t"r.io/x:1" ]\r\n}\r\n\r\n', ".JSON"),
        ('{"a\\u0072gs" : ["r\\u0075n", "r.io/x:1"], "note": "r.io/x:1 \\ud83d\\ude00 😀"}', ".json"),
        (
            '{"note": "😀 r.io/x:1", "args": ["r.io/x:1", "r.io/x:1"], "b": {"args": [1, "r.io/x:1"]}}',
            ".json",
        ),
        ('{"note": {"a": [true, {"b": 1.5e3}], "c": "[{,}]\\""}, "args": [null, "r.io/x:1", {}]}', ".json"),
        ("args:\n  - run\n  - r.io/x:1   # r.io/x:1\nnote: r.io/x:1\n", ".yaml"),
        ("# 😀 r.io/x:1\nargs:\r\n- run\r\n- 'r.io/x:1'\r\n", ".yml"),
        ('note: "😀"\nargs: [ run, "r.io/x:1" , serve]', ".yaml"),
        ("{args: [run, r.io/x:1]}", ".yaml"),
        ('args:\n- run\n- "r.io/\\\n  x:1"\n', ".yaml"),
    ],
)
def test_only_the_digest_is_new(text: str, suffix: str) -> None:
    new = edited(text, "r.io/x:1", f"r.io/x:1@{NEW}", suffix)

    assert new.count(f"@{NEW}") == 1
    assert new.replace(f"@{NEW}", "") == text
    with pytest.raises(EditError, match="part of the argument"):
        edited(new, "r.io/x:1", f"r.io/x:1@{NEW}", suffix)
    assert edited(new, f"r.io/x:1@{NEW}", f"r.io/x:1@{OLD}", suffix) == new.replace(NEW, OLD)


def test_escapes_in_the_name_stay() -> None:
    text = '{"args": ["run", "r.io\\/\\u0078:1"]}'

    assert edited(text, "r.io/x:1", f"r.io/x:1@{NEW}") == text.replace(":1", f":1@{NEW}")


def test_a_tag_that_was_not_written_comes_with_the_digest() -> None:
    assert edited('{"args": ["run", "x"]}', "x", f"x:latest@{NEW}") == (
        f'{{"args": ["run", "x:latest@{NEW}"]}}'
    )


@pytest.mark.parametrize("mark", ["|-", ">-", "|", ">"])
def test_a_block_of_text_is_refused(mark: str) -> None:
    text = f"args:\n- run\n- {mark}\n  r.io/x:1\n"
    old = "r.io/x:1" if mark.endswith("-") else "r.io/x:1\n"

    with pytest.raises(EditError, match=r"block of text.*on one line"):
        edited(text, old, f"r.io/x:1@{NEW}", ".yaml")


def test_an_image_within_a_longer_argument_is_refused() -> None:
    text = json.dumps({"args": ["run", "--mount=type=image,src=r.io/x:1,dst=/w"]})

    with pytest.raises(EditError, match=r"part of the argument '--mount=type=image.*by hand"):
        edited(text, "r.io/x:1", f"r.io/x:1@{NEW}")


def test_an_escaped_digest_is_refused() -> None:
    text = f'{{"args": ["run", "r.io/x:1\\u0040{OLD}"]}}'

    with pytest.raises(EditError, match="cannot be changed by itself"):
        edited(text, f"r.io/x:1@{OLD}", f"r.io/x:1@{NEW}")


def test_every_text_of_a_document_is_found() -> None:
    text = '{"a": ["x", {"b": "y", "c": []}, "z"], "d": {}, "e": "\\""}'

    found = {path: text[one.start : one.end] for path, one in literals(text, suffix=".json").items()}
    assert found == {
        ("a", 0): '"x"', ("a", 1, "b"): '"y"', ("a", 2): '"z"', ("e",): '"\\""',
    }  # fmt: skip
    assert list(literals('"x"', suffix=".json")) == [()]
