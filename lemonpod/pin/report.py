"""Findings in the notations that people, programs, code scanners and GitHub's log read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from lemonpod import __version__
from lemonpod.pin.scan import PinFinding

COLUMNS: Final = ("PINNED", "IMAGE", "MANIFEST", "LOCATION", "PROBLEM")

_UNPINNED: Final = "unpinned-image"
_UNREADABLE: Final = "unreadable-manifest"
_RULES: Final = {
    _UNPINNED: ("warning", "A container image is named without a digest, so what it means may change."),
    _UNREADABLE: ("error", "Which images a manifest names cannot be told."),
}


def rows(findings: Iterable[PinFinding]) -> list[tuple[str | None, ...]]:
    """One row of `COLUMNS` a finding."""
    return [
        (
            "yes" if finding.pinned else "no",
            finding.image,
            str(finding.manifest),
            finding.location,
            finding.problem,
        )
        for finding in findings
    ]


def summary(findings: Sequence[PinFinding]) -> str:
    """The counts, in one line."""
    images = [finding for finding in findings if finding.image is not None]
    unclear = len(findings) - len(images)
    counts = [f"{sum(finding.pinned for finding in images)} of {len(images)} images pinned"] if images else []
    counts += [f"{unclear} problem{'s' if unclear > 1 else ''} hid which images are named"] if unclear else []
    return "; ".join(counts) or "no container image is named"


def as_json(findings: Iterable[PinFinding]) -> list[dict[str, Any]]:
    """Each finding as an object."""
    return [
        {
            "manifest": str(finding.manifest),
            "recipe": finding.recipe,
            "location": finding.location,
            "image": finding.image,
            "pinned": finding.pinned,
            "digest": finding.digest,
            "problem": finding.problem,
        }
        for finding in findings
    ]


def as_sarif(findings: Iterable[PinFinding]) -> dict[str, Any]:
    """What is not pinned, as a SARIF 2.1.0 log."""
    rules = [
        {"id": id_, "shortDescription": {"text": text}, "defaultConfiguration": {"level": level}}
        for id_, (level, text) in _RULES.items()
    ]
    driver = {"name": "lemonpod", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {"tool": {"driver": driver}, "results": [_result(one) for one in findings if not one.pinned]}
        ],
    }


def as_annotations(findings: Iterable[PinFinding]) -> list[str]:
    """What is not pinned, as workflow commands that GitHub shows at their lines."""
    return [_annotation(finding) for finding in findings if not finding.pinned]


def _result(finding: PinFinding) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.manifest)}}
    if finding.line is not None:
        physical["region"] = {"startLine": finding.line}
    where: dict[str, Any] = {"physicalLocation": physical}
    if finding.location:
        where["logicalLocations"] = [{"fullyQualifiedName": finding.location}]
    rule = _rule(finding)
    return {
        "ruleId": rule,
        "level": _RULES[rule][0],
        "message": {"text": _message(finding)},
        "locations": [where],
    }


def _annotation(finding: PinFinding) -> str:
    line = "" if finding.line is None else f",line={finding.line}"
    file = _escaped(str(finding.manifest)).replace(":", "%3A").replace(",", "%2C")
    place = f"{finding.location}: " if finding.location else ""
    return f"::{_RULES[_rule(finding)][0]} file={file}{line}::{_escaped(place + _message(finding))}"


def _rule(finding: PinFinding) -> str:
    return _UNREADABLE if finding.image is None else _UNPINNED


def _message(finding: PinFinding) -> str:
    if finding.image is None:
        return finding.problem or ""
    if finding.problem is not None:
        return f"image not pinned: {finding.problem}"
    return f"image not pinned: '{finding.image}' has no digest (write it as name:tag@sha256:…)"


def _uri(path: Path) -> str:
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))


def _escaped(text: str) -> str:
    """`text` as the one line that a workflow command is, without what a terminal would obey."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
