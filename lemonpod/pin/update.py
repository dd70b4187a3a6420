"""The digests of now, written behind the tags in a manifest's file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lemonpod.contract.image import parse_image
from lemonpod.errors import ImageError
from lemonpod.launch.container import Runtime
from lemonpod.pin.edit import EditError, with_image
from lemonpod.pin.replace import ReplaceError, replace_file
from lemonpod.pin.scan import PinFinding, Scanned
from lemonpod.pin.source import DigestError, DigestSource
from lemonpod.pin.verdicts import Outcome, Verdict, is_current, reference, unanswered, unreadable


def update(
    scanned: Scanned, sources: Callable[[frozenset[Runtime]], DigestSource], *, write: bool
) -> list[Outcome]:
    """Pin every image of one file that can be pinned, in one step; without `write` only tell.

    `sources` gives whom to ask for the images of some runtimes.
    """
    data, outcomes = scanned.data, []
    for finding in scanned.findings:
        outcome = _resolved(finding, sources(finding.runtimes))
        if outcome.verdict is Verdict.CHANGED and finding.image is not None:
            new = _pinned(finding.image, outcome.resolved)
            try:
                data = with_image(data, finding.path, finding.image, new, suffix=scanned.path.suffix)
            except EditError as error:
                outcome = replace(outcome, verdict=Verdict.REFUSED, problem=str(error))
        outcomes.append(outcome)
    if write and data != scanned.data:
        try:
            replace_file(scanned.path, scanned.data, data)
        except ReplaceError as error:
            return [_not_written(outcome, error) for outcome in outcomes]
    return outcomes


def _resolved(finding: PinFinding, source: DigestSource) -> Outcome:
    """With CHANGED where the text has to change."""
    if finding.image is None:
        return unreadable(finding)
    try:
        image = reference(finding)
    except ImageError as error:
        return Outcome(finding=finding, verdict=Verdict.REFUSED, problem=str(error))
    if image.digest is not None and image.tag is None:
        return Outcome(finding=finding, verdict=Verdict.SKIPPED, problem="it has no tag to follow")
    try:
        now = source.digest(replace(image, digest=None))
        current = is_current(image, now, source)
    except DigestError as error:
        return unanswered(finding, error)
    return Outcome(finding=finding, verdict=Verdict.CURRENT if current else Verdict.CHANGED, resolved=now)


def _pinned(image: str, digest: str | None) -> str:
    """With the tag that it means anyway, so that `verify` knows which tag to look at."""
    named = parse_image(image)
    return str(replace(named, tag=named.tag or "latest", digest=digest))


def _not_written(outcome: Outcome, error: ReplaceError) -> Outcome:
    if outcome.verdict is not Verdict.CHANGED:
        return outcome
    return replace(outcome, verdict=Verdict.REFUSED, problem=str(error))
