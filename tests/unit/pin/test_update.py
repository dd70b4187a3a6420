"""What is written, what is left, and what a later look at the tags says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lemonpod.pin.scan import scan_file
from lemonpod.pin.source import DigestError, UnreachableError
from lemonpod.pin.update import update
from lemonpod.pin.verdicts import Outcome, Verdict, checked, verified
from tests.factories import make_document
from tests.fakes.digests import FakeDigests

OLD, NEW, PART = ("sha256:" + digit * 64 for digit in "123")
FULL = "r.example/x:1"


def manifest(folder: Path, image: str, *before: str, command: str = "podman") -> Path:
    block = {"command": command, "args": ["run", *before, image, "serve"]}
    file = folder / "m.json"
    file.write_text(json.dumps(make_document(platforms={"linux": {"cpu": block}}), indent=1))
    return file


def updated(folder: Path, image: str, source: FakeDigests, **block: Any) -> tuple[Outcome, str]:
    """The outcome, and the image that stands in the file then."""
    file = manifest(folder, image, **block)
    (outcome,) = update(scan_file(file), lambda _: source, write=True)
    return outcome, json.loads(file.read_text())["platforms"]["linux"]["cpu"]["args"][1]


@pytest.mark.parametrize(
    ("image", "written"),
    [
        (FULL, f"{FULL}@{NEW}"),
        (f"{FULL}@{OLD}", f"{FULL}@{NEW}"),
        ("r.example/x", f"r.example/x:latest@{NEW}"),
        ("r.example:5000/a/x", f"r.example:5000/a/x:latest@{NEW}"),
    ],
)
def test_the_digest_of_now_is_written(tmp_path: Path, image: str, written: str) -> None:
    named = image.partition("@")[0]

    assert updated(tmp_path, image, FakeDigests({named: NEW}))[1] == written


def test_a_short_name_of_docker_stays_short(tmp_path: Path) -> None:
    source = FakeDigests({"docker.io/library/x:1": NEW})

    assert updated(tmp_path, "x:1", source, command="docker")[1] == f"x:1@{NEW}"
    assert updated(tmp_path, "docker.io/x:1", source)[1] == f"docker.io/x:1@{NEW}"


@pytest.mark.parametrize(
    ("image", "verdict", "why"),
    [
        ("x:1", Verdict.REFUSED, "short name.*docker.io/library/x:1"),
        ("r.example/{arch_alias}:1", Verdict.REFUSED, "tokens in its name"),
        ("docker://r.example/x", Verdict.REFUSED, "leave out the transport"),
        (f"r.example/x@{OLD}", Verdict.SKIPPED, "no tag to follow"),
        (f"{FULL}@{NEW}", Verdict.CURRENT, ""),
        (f"{FULL}@{PART}", Verdict.CURRENT, ""),  # C09: a platform of it
        ("r.example/y:1", Verdict.GONE, "there is no 'r.example/y:1'"),
        ("away.example/x:1", Verdict.UNKNOWN, "no way"),
    ],
)
def test_what_is_not_written_says_why(tmp_path: Path, image: str, verdict: Verdict, why: str) -> None:
    source = FakeDigests({FULL: NEW, "away.example/x:1": UnreachableError("no way")}, {NEW: {PART}})

    outcome, now = updated(tmp_path, image, source)

    assert (outcome.verdict, now) == (verdict, image)
    assert re.search(why, outcome.problem or "")


def test_the_rest_of_a_file_is_written_where_one_image_cannot_be(tmp_path: Path) -> None:
    file = manifest(tmp_path, FULL, "--mount", f"type=image,src={FULL},dst=/w")

    mounted, run = update(scan_file(file), lambda _: FakeDigests({FULL: NEW}), write=True)

    assert (mounted.verdict, run.verdict) == (Verdict.REFUSED, Verdict.CHANGED)
    assert "part of the argument" in (mounted.problem or "")
    assert file.read_text().count(NEW) == 1


def test_nothing_is_written_where_it_is_only_told(tmp_path: Path) -> None:
    file = manifest(tmp_path, FULL)
    before = file.read_bytes()

    (outcome,) = update(scan_file(file), lambda _: FakeDigests({FULL: NEW}), write=False)

    assert (outcome.verdict, outcome.resolved) == (Verdict.CHANGED, NEW)
    assert file.read_bytes() == before


def test_a_file_that_changes_while_somebody_is_asked_is_left(tmp_path: Path) -> None:
    file = manifest(tmp_path, FULL)
    scanned = scan_file(file)
    file.write_text("{}")

    (outcome,) = update(scanned, lambda _: FakeDigests({FULL: NEW}), write=True)

    assert (outcome.verdict, file.read_text()) == (Verdict.REFUSED, "{}")
    assert "changed meanwhile" in (outcome.problem or "")


@pytest.mark.parametrize(
    ("image", "verdict", "why"),
    [
        (f"{FULL}@{NEW}", Verdict.CURRENT, ""),
        (f"{FULL}@{PART}", Verdict.CURRENT, ""),  # C09
        (f"{FULL}@{OLD}", Verdict.MOVED, ""),
        (f"r.example/z:1@{OLD}", Verdict.MOVED, "is gone, and can no longer be pulled"),  # C25
        (f"r.example/x@{OLD}", Verdict.CURRENT, ""),
        (f"r.example/y@{OLD}", Verdict.GONE, "there is no"),
        (f"r.example/y:1@{OLD}", Verdict.GONE, "there is no"),
        (f"away.example/x:1@{OLD}", Verdict.UNKNOWN, "no way"),
        (FULL, Verdict.SKIPPED, "no digest"),
        (f"x:1@{OLD}", Verdict.SKIPPED, "short name"),
        (f"r.example/{{arch_alias}}:1@{OLD}", Verdict.SKIPPED, "tokens"),
    ],
)
def test_what_moved_since(tmp_path: Path, image: str, verdict: Verdict, why: str) -> None:
    known: dict[str, str | DigestError] = {
        FULL: NEW,
        "r.example/z:1": NEW,
        f"r.example/x@{OLD}": OLD,
        "away.example/x:1": UnreachableError("no way"),
    }
    (finding,) = scan_file(manifest(tmp_path, image)).findings

    outcome = verified(finding, FakeDigests(known, {NEW: {PART}}))

    assert outcome.verdict is verdict
    assert why in (outcome.problem or "")
    if verdict is Verdict.MOVED:
        assert (outcome.finding.digest, outcome.resolved) == (OLD, NEW)


@pytest.mark.parametrize(
    ("image", "verdict", "resolved", "why"),
    [
        (FULL, Verdict.UNPINNED, NEW, ""),
        (f"{FULL}@{OLD}", Verdict.PINNED, NEW, ""),
        (f"r.example/x@{OLD}", Verdict.PINNED, None, ""),
        ("x:1", Verdict.UNPINNED, None, "short name"),
        (f"r.example/y:1@{OLD}", Verdict.PINNED, None, "there is no"),
        ("away.example/x:1", Verdict.UNPINNED, None, "no way"),
        (f"away.example/x:1@{OLD}", Verdict.UNKNOWN, None, "no way"),
    ],
)
def test_a_check_may_ask_for_the_digest_of_now(
    tmp_path: Path, image: str, verdict: Verdict, resolved: str | None, why: str
) -> None:
    source = FakeDigests({FULL: NEW, "away.example/x:1": UnreachableError("no way")})
    (finding,) = scan_file(manifest(tmp_path, image)).findings

    outcome = checked(finding, source)

    assert (outcome.verdict, outcome.resolved) == (verdict, resolved)
    assert why in (outcome.problem or "")
