"""Findings in the notations that people, programs, code scanners and GitHub's log read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from lemonpod import __version__
from lemonpod.pin.verdicts import Outcome, Verdict

_RULES: Final = {
    Verdict.UNPINNED: (
        "unpinned-image",
        "warning",
        "A container image is named without a digest, so what it means may change.",
    ),
    Verdict.UNREADABLE: ("unreadable-manifest", "error", "Which images a manifest names cannot be told."),
    Verdict.MOVED: ("moved-tag", "warning", "The tag of a pinned image names another image now."),
    Verdict.GONE: ("missing-image", "error", "A tag or a digest that a manifest names is not there."),
    Verdict.REFUSED: ("unwritten-digest", "warning", "An image's digest was not written into its manifest."),
    Verdict.UNKNOWN: ("unknown-digest", "warning", "Which digest an image has now cannot be told."),
}
"""Of what is told to code scanners: id, level, meaning."""

FINDINGS: Final = _RULES.keys() - {Verdict.UNKNOWN}
"""What somebody has to mend; UNKNOWN says nothing of the manifest."""


def table(outcomes: Sequence[Outcome]) -> tuple[list[str], list[list[str | None]]]:
    """Columns, and one row an outcome."""
    rows = [
        {
            "VERDICT": outcome.verdict.value,
            "IMAGE": outcome.finding.image,
            "DIGEST NOW": outcome.resolved,
            "MANIFEST": str(outcome.finding.manifest),
            "LOCATION": outcome.finding.location,
            "PROBLEM": outcome.problem,
        }
        for outcome in outcomes
    ]
    columns = [name for name in rows[0] if name != "DIGEST NOW" or any(row[name] for row in rows)]
    return columns, [[row[name] for name in columns] for row in rows]


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many images there are of each verdict, in one line."""
    images = [outcome for outcome in outcomes if outcome.finding.image is not None]
    of_each = Counter(outcome.verdict for outcome in images)
    counts = [
        f"{number} of {len(images)} images {verdict}" for verdict in Verdict if (number := of_each[verdict])
    ]
    unclear = len(outcomes) - len(images)
    counts += [f"{unclear} problem{'s' if unclear > 1 else ''} hid which images are named"] if unclear else []
    return "; ".join(counts) or "no container image is named"


def as_json(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Each outcome as an object."""
    return [
        {
            "manifest": str(outcome.finding.manifest),
            "recipe": outcome.finding.recipe,
            "location": outcome.finding.location,
            "image": outcome.finding.image,
            "pinned": outcome.finding.pinned,
            "digest": outcome.finding.digest,
            "verdict": outcome.verdict.value,
            "resolved": outcome.resolved,
            "problem": outcome.problem,
        }
        for outcome in outcomes
    ]


def as_sarif(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """What is wrong, as a SARIF 2.1.0 log."""
    rules = [
        {"id": id_, "shortDescription": {"text": text}, "defaultConfiguration": {"level": level}}
        for id_, level, text in _RULES.values()
    ]
    driver = {"name": "lemonpod", "version": __version__, "rules": rules}
    results = [_result(outcome) for outcome in outcomes if outcome.verdict in _RULES]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def as_annotations(outcomes: Iterable[Outcome]) -> list[str]:
    """What is wrong, as workflow commands that GitHub shows at their lines."""
    return [_annotation(outcome) for outcome in outcomes if outcome.verdict in _RULES]


def _result(outcome: Outcome) -> dict[str, Any]:
    finding = outcome.finding
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.manifest)}}
    if finding.line is not None:
        physical["region"] = {"startLine": finding.line}
    where: dict[str, Any] = {"physicalLocation": physical}
    if finding.location:
        where["logicalLocations"] = [{"fullyQualifiedName": finding.location}]
    rule, level, _ = _RULES[outcome.verdict]
    return {"ruleId": rule, "level": level, "message": {"text": _message(outcome)}, "locations": [where]}


def _annotation(outcome: Outcome) -> str:
    finding, level = outcome.finding, _RULES[outcome.verdict][1]
    line = "" if finding.line is None else f",line={finding.line}"
    file = _escaped(str(finding.manifest)).replace(":", "%3A").replace(",", "%2C")
    place = f"{finding.location}: " if finding.location else ""
    return f"::{level} file={file}{line}::{_escaped(place + _message(outcome))}"


def _message(outcome: Outcome) -> str:
    image, problem = outcome.finding.image, outcome.problem
    match outcome.verdict:
        case Verdict.UNREADABLE:
            return problem or ""
        case Verdict.UNPINNED if problem is None:
            digest = outcome.resolved or "sha256:…"
            return f"image not pinned: '{image}' has no digest (write it as name:tag@{digest})"
        case Verdict.UNPINNED:
            return f"image not pinned: {problem}"
        case Verdict.MOVED:
            more = f"; {problem}" if problem else ""
            return f"image moved: the tag of '{image}' names {outcome.resolved} now{more}"
    return f"image '{image}': {problem}"


def _uri(path: Path) -> str:
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))


def _escaped(text: str) -> str:
    """`text` as the one line that a workflow command is, without what a terminal would obey."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
