"""Manifest files become findings: one for each image, and for each reason that a file cannot be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lemonpod.contract.location import location
from lemonpod.contract.parse import parse_manifest
from lemonpod.discovery.catalog import Catalog
from lemonpod.discovery.read import MAX_BYTES, read_document
from lemonpod.errors import ManifestError, Problem
from lemonpod.pin.images import images_of
from lemonpod.pin.lines import Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class PinFinding:
    """An image that a manifest names, at `location`; without an `image`, why it cannot be told."""

    manifest: Path
    recipe: str | None
    location: str
    line: int | None = None
    image: str | None
    digest: str | None = None
    problem: str | None = None

    @property
    def pinned(self) -> bool:
        return self.digest is not None


def scan_file(path: Path) -> tuple[PinFinding, ...]:
    """The findings of one file, whoever could have written it: nothing is run."""
    document: object = None
    try:
        data = _content(path)
        document = read_document(data, suffix=path.suffix)
        manifest = parse_manifest(document)
    except ManifestError as error:
        named = document.get("recipe") if isinstance(document, dict) else None
        return _unreadable(path, error.problems, named if isinstance(named, str) else None)
    except OSError as error:
        return _unreadable(path, [Problem(location="", message=f"cannot read file: {error.strerror}")])
    uses = images_of(manifest)
    if not uses:
        return ()
    lines = Lines(data)
    return tuple(
        PinFinding(
            manifest=path,
            recipe=manifest.recipe,
            location=location(use.path),
            line=lines.of(use.path),
            image=use.image,
            digest=use.digest,
            problem=use.problem,
        )
        for use in uses
    )


def scan_catalog(catalog: Catalog) -> tuple[PinFinding, ...]:
    """The findings of every file that discovery looks at, also of those that it refuses."""
    findings = [found for one in catalog.descriptors.values() for found in scan_file(one.source.path)]
    for rejected in catalog.rejected:
        if rejected.kept:
            continue  # its file is among the accepted ones
        is_folder = os.path.isdir(rejected.path)
        findings += _unreadable(rejected.path, rejected.problems) if is_folder else scan_file(rejected.path)
    return tuple(findings)


def _content(path: Path) -> bytes:
    if not stat.S_ISREG(os.stat(path).st_mode):  # nor may a pipe keep us waiting
        raise ManifestError([Problem(location="", message="not a regular file")])
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _unreadable(path: Path, problems: Iterable[Problem], recipe: str | None = None) -> tuple[PinFinding, ...]:
    return tuple(
        PinFinding(
            manifest=path,
            recipe=recipe,
            location=problem.location,
            image=None,
            problem=f"{problem.message} ({problem.hint})" if problem.hint else problem.message,
        )
        for problem in problems
    )
