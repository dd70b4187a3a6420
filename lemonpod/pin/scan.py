"""Manifest files become findings: one for each image, and for each reason that a file cannot be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lemonpod.contract.location import Path as DocumentPath
from lemonpod.contract.location import location
from lemonpod.contract.parse import parse_manifest
from lemonpod.discovery.catalog import Catalog
from lemonpod.discovery.read import MAX_BYTES, read_document
from lemonpod.errors import ManifestError, Problem
from lemonpod.launch.container import Runtime
from lemonpod.pin.images import images_of
from lemonpod.pin.literals import literals


@dataclass(frozen=True, slots=True, kw_only=True)
class PinFinding:
    """An image that a manifest names, at `location`; without an `image`, why it cannot be told."""

    manifest: Path
    recipe: str | None
    location: str
    path: DocumentPath = ()
    line: int | None = None
    image: str | None
    digest: str | None = None
    problem: str | None = None
    runtimes: frozenset[Runtime] = frozenset()

    @property
    def pinned(self) -> bool:
        return self.digest is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """A file as it was read, and the findings of it."""

    path: Path
    data: bytes = b""
    findings: tuple[PinFinding, ...]


def scan_file(path: Path) -> Scanned:
    """What one file holds, whoever could have written it: nothing is run."""
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
    text = data.decode()
    places = literals(text, suffix=path.suffix) if uses else {}
    findings = (
        PinFinding(
            manifest=path,
            recipe=manifest.recipe,
            location=location(use.path),
            path=use.path,
            line=text.count("\n", 0, places[use.path].start) + 1,
            image=use.image,
            digest=use.digest,
            problem=use.problem,
            runtimes=use.runtimes,
        )
        for use in uses
    )
    return Scanned(path=path, data=data, findings=tuple(findings))


def scan_catalog(catalog: Catalog) -> Iterator[Scanned]:
    """Every file that discovery looks at, also those that it refuses."""
    for descriptor in catalog.descriptors.values():
        yield scan_file(descriptor.source.path)
    for rejected in catalog.rejected:
        if rejected.kept:
            continue  # its file is among the accepted ones
        is_folder = os.path.isdir(rejected.path)
        yield _unreadable(rejected.path, rejected.problems) if is_folder else scan_file(rejected.path)


def _content(path: Path) -> bytes:
    if not stat.S_ISREG(os.stat(path).st_mode):  # nor may a pipe keep us waiting
        raise ManifestError([Problem(location="", message="not a regular file")])
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _unreadable(path: Path, problems: Iterable[Problem], recipe: str | None = None) -> Scanned:
    findings = (
        PinFinding(
            manifest=path,
            recipe=recipe,
            location=problem.location,
            image=None,
            problem=f"{problem.message} ({problem.hint})" if problem.hint else problem.message,
        )
        for problem in problems
    )
    return Scanned(path=path, findings=tuple(findings))
