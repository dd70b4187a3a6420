"""What notations do to odd names, and the words of each verdict."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lemonpod.pin.report import as_annotations, as_json, as_sarif, summary, table
from lemonpod.pin.scan import PinFinding, scan_file
from lemonpod.pin.verdicts import Outcome, Verdict, checked


def finding(image: str | None = "x:1", manifest: str = "a.json", **fields: Any) -> PinFinding:
    return PinFinding(manifest=Path(manifest), recipe="r", location="platforms", image=image, **fields)


def outcome(image: str | None = "x:1", manifest: str = "a.json", **fields: Any) -> Outcome:
    return checked(finding(image, manifest, **fields), None)


def test_an_annotation_stays_one_line() -> None:
    (line,) = as_annotations([outcome(image="{custom:x}\n::error::100%\r\x1b[2J", manifest="a,b:c%.json")])

    assert line.startswith("::warning file=a%2Cb%3Ac%25.json::platforms: ")
    assert "{custom:x}%0A::error::100%25%0D\\x1b[2J" in line
    assert len(line.splitlines()) == 1


def test_a_problem_is_an_error_and_says_what_it_is() -> None:
    (line,) = as_annotations([outcome(image=None, problem="no image")])

    assert line == "::error file=a.json::platforms: no image"


def test_a_path_becomes_a_uri() -> None:
    def uri(path: str) -> str:
        result = as_sarif([outcome(manifest=path)])["runs"][0]["results"][0]
        text: str = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        return text

    assert uri("m/a b.json") == "m/a%20b.json"
    assert uri("/m/a b.json") == "file:///m/a%20b.json"
    assert uri("\udce9.json") == "%E9.json"


def test_the_summary_counts_images_and_problems() -> None:
    pinned = outcome(digest="sha256:0")
    hidden = outcome(image=None, problem="why")

    assert summary([]) == "no container image is named"
    assert summary([pinned, outcome()]) == "1 of 2 images pinned; 1 of 2 images unpinned"
    assert summary([pinned, hidden, hidden]) == "1 of 1 images pinned; 2 problems hid which images are named"
    columns, rows = table([pinned, hidden])
    assert columns == ["VERDICT", "IMAGE", "MANIFEST", "LOCATION", "PROBLEM"]
    assert rows == [
        ["pinned", "x:1", "a.json", "platforms", None],
        ["unreadable", None, "a.json", "platforms", "why"],
    ]
    assert "DIGEST NOW" in table([replace(pinned, resolved="sha256:1")])[0]


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (Verdict.MOVED, "moved-tag: image moved: the tag of 'x:1' names sha256:1 now; why"),
        (Verdict.GONE, "missing-image: image 'x:1': why"),
        (Verdict.REFUSED, "unwritten-digest: image 'x:1': why"),
        (Verdict.UNKNOWN, "unknown-digest: image 'x:1': why"),
        (Verdict.UNPINNED, "unpinned-image: image not pinned: why"),
        (Verdict.PINNED, None),
        (Verdict.CURRENT, None),
        (Verdict.CHANGED, None),
        (Verdict.SKIPPED, None),
    ],
)
def test_code_scanners_hear_of_what_is_wrong(verdict: Verdict, told: str | None) -> None:
    one = Outcome(finding=finding(), verdict=verdict, resolved="sha256:1", problem="why")

    results = as_sarif([one])["runs"][0]["results"]
    assert [f"{result['ruleId']}: {result['message']['text']}" for result in results] == (
        [told] if told else []
    )
    assert len(as_annotations([one])) == len(results)
    assert as_json([one])[0]["verdict"] == verdict


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")

    assert [one.problem for one in scan_file(tmp_path / "pipe.json").findings] == ["not a regular file"]
    assert [one.problem for one in scan_file(tmp_path).findings] == ["not a regular file"]
