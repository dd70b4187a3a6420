"""What is true of an image that a manifest names: of the text alone, and by whoever knows its tag."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from lemonpod.contract.image import ImageRef, parse_image
from lemonpod.errors import ImageError
from lemonpod.pin.scan import PinFinding
from lemonpod.pin.source import DigestError, DigestSource, NoSuchImageError, qualified


class Verdict(StrEnum):
    PINNED = "pinned"
    UNPINNED = "unpinned"
    UNREADABLE = "unreadable"
    """Which image it is cannot be told."""
    CURRENT = "current"
    """Its digest is there, and is what its tag names now."""
    MOVED = "moved"
    """Its tag names something else than its digest."""
    GONE = "gone"
    """Nobody has its tag or its digest any more."""
    CHANGED = "changed"
    """The digest of now was written behind its tag."""
    REFUSED = "refused"
    """No digest is written, and there is a cure for that."""
    SKIPPED = "skipped"
    """There is nothing to ask."""
    UNKNOWN = "unknown"
    """Whoever could tell does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A finding, what became of it, and why."""

    finding: PinFinding
    verdict: Verdict
    resolved: str | None = None
    """The digest that its tag names now, as far as somebody was asked."""
    problem: str | None = None


def reference(finding: PinFinding) -> ImageRef:
    """The image in full; raises ImageError for one that nobody can be asked for."""
    image = finding.image or ""
    if "{" in image:
        raise ImageError("only a launch knows what the tokens in its name stand for")
    return qualified(parse_image(image), finding.runtimes)


def checked(finding: PinFinding, source: DigestSource | None) -> Outcome:
    """Whether a digest pins the image; with a source also which one its tag has now."""
    if finding.image is None:
        return unreadable(finding)
    verdict = Verdict.PINNED if finding.pinned else Verdict.UNPINNED
    outcome = Outcome(finding=finding, verdict=verdict, problem=finding.problem)
    if source is None or finding.problem is not None:
        return outcome
    try:
        image = reference(finding)
        if image.digest is not None and image.tag is None:
            return outcome
        return replace(outcome, resolved=source.digest(replace(image, digest=None)))
    except (ImageError, NoSuchImageError) as error:
        return replace(outcome, problem=str(error))
    except DigestError as error:
        return replace(outcome, verdict=Verdict.UNKNOWN if finding.pinned else verdict, problem=str(error))


def verified(finding: PinFinding, source: DigestSource) -> Outcome:
    """Whether the image's digest is still there, and still what its tag names."""
    if finding.image is None:
        return unreadable(finding)
    if finding.digest is None:
        return Outcome(finding=finding, verdict=Verdict.SKIPPED, problem="it has no digest to verify")
    try:
        image = reference(finding)
    except ImageError as error:
        return Outcome(finding=finding, verdict=Verdict.SKIPPED, problem=str(error))
    try:
        if image.tag is None:
            return Outcome(finding=finding, verdict=Verdict.CURRENT, resolved=source.digest(image))
        now = source.digest(replace(image, digest=None))
        if is_current(image, now, source):
            return Outcome(finding=finding, verdict=Verdict.CURRENT, resolved=now)
        problem = _left_behind(replace(image, tag=None), source)
        return Outcome(finding=finding, verdict=Verdict.MOVED, resolved=now, problem=problem)
    except DigestError as error:
        return unanswered(finding, error)


def is_current(image: ImageRef, now: str, source: DigestSource) -> bool:
    """Whether the image's digest is `now`, which its tag names, or one platform of that."""
    if image.digest is None:
        return False
    return image.digest == now or source.includes(replace(image, digest=None), image.digest)


def unreadable(finding: PinFinding) -> Outcome:
    """Of a finding that has no image."""
    return Outcome(finding=finding, verdict=Verdict.UNREADABLE, problem=finding.problem)


def unanswered(finding: PinFinding, error: DigestError) -> Outcome:
    """Of an image that somebody was asked for in vain."""
    verdict = Verdict.GONE if isinstance(error, NoSuchImageError) else Verdict.UNKNOWN
    return Outcome(finding=finding, verdict=verdict, problem=str(error))


def _left_behind(image: ImageRef, source: DigestSource) -> str | None:
    """What moving did to the digest: a registry may clear away what no tag names."""
    try:
        source.digest(image)
    except NoSuchImageError:
        return "the image of its digest is gone, and can no longer be pulled"
    except DigestError as error:
        return f"whether the image of its digest is still there cannot be told: {error}"
    return None
