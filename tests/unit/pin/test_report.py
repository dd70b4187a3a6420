"""Lines of files, and what notations do to odd names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lemonpod.pin.lines import Lines
from lemonpod.pin.report import as_annotations, as_sarif, rows, summary
from lemonpod.pin.scan import PinFinding, scan_file


def finding(image: str | None = "x:1", manifest: str = "a.json", **fields: Any) -> PinFinding:
    return PinFinding(manifest=Path(manifest), recipe="r", location="platforms", image=image, **fields)


@pytest.mark.parametrize(
    "text",
    [
        '{\n "a": [\n  "x",\n  {"b": 1}\n ]\n}',
        '{\n\t"a":[\n\t"x\\/\\u00e9",\n\t{"b":1}]}',
        "# a comment\na:\n  - x\n  - b: 1\n",
    ],
)
def test_a_value_is_found_by_its_path(text: str) -> None:
    lines = Lines(text.encode())

    assert lines.of(("a", 1, "b")) == 4
    assert lines.of(("a", 0)) == 3
    assert lines.of(("a", 2)) is None
    assert lines.of(("a", "b")) is None
    assert lines.of(("c",)) is None


def test_where_the_text_is_no_yaml_no_line_is_known() -> None:
    assert Lines(b'{"a": "\\ud83d\\ude00"}').of(("a",)) is None
    assert Lines(b"").of(("a",)) is None


def test_an_annotation_stays_one_line() -> None:
    (line,) = as_annotations([finding(image="{custom:x}\n::error::100%\r\x1b[2J", manifest="a,b:c%.json")])

    assert line.startswith("::warning file=a%2Cb%3Ac%25.json::platforms: ")
    assert "{custom:x}%0A::error::100%25%0D\\x1b[2J" in line
    assert len(line.splitlines()) == 1


def test_a_problem_is_an_error_and_says_what_it_is() -> None:
    (line,) = as_annotations([finding(image=None, problem="no image")])

    assert line == "::error file=a.json::platforms: no image"


def test_a_path_becomes_a_uri() -> None:
    def uri(path: str) -> str:
        result = as_sarif([finding(manifest=path)])["runs"][0]["results"][0]
        text: str = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        return text

    assert uri("m/a b.json") == "m/a%20b.json"
    assert uri("/m/a b.json") == "file:///m/a%20b.json"
    assert uri("\udce9.json") == "%E9.json"


def test_the_summary_counts_images_and_problems() -> None:
    pinned = finding(digest="sha256:0")
    hidden = finding(image=None, problem="why")

    assert summary([]) == "no container image is named"
    assert summary([pinned, finding()]) == "1 of 2 images pinned"
    assert summary([pinned, hidden, hidden]) == "1 of 1 images pinned; 2 problems hid which images are named"
    assert rows([pinned, hidden]) == [
        ("yes", "x:1", "a.json", "platforms", None),
        ("no", None, "a.json", "platforms", "why"),
    ]


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")

    assert [one.problem for one in scan_file(tmp_path / "pipe.json")] == ["not a regular file"]
    assert [one.problem for one in scan_file(tmp_path)] == ["not a regular file"]
