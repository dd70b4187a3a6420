"""One manifest file, as the last scan saw it.

A file is read again when its times, its size, its inode or its mode have changed. The clock of a file
system ticks too slowly to tell two writes in the same instant apart, so a file that changed just before it
was read counts as unsettled and is read once more by the next scan.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.parse import parse_manifest
from lemonpod.discovery.paths import Scope
from lemonpod.discovery.read import read_document
from lemonpod.discovery.trust import Content, read_trusted
from lemonpod.errors import ManifestError, Problem, UntrustedFileError

Fingerprint: TypeAlias = tuple[int, ...]

SETTLED_AFTER_NS: Final = 2_000_000_000  # FAT counts in steps of two seconds, no file system in longer ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The file that a manifest was read from; `sha256` is of its bytes."""

    path: Path
    scope: Scope
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """An accepted manifest and where it comes from."""

    manifest: Manifest
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """`descriptor` is the last content that was accepted, `problems` what is wrong with the present one."""

    path: Path
    scope: Scope
    descriptor: Descriptor | None
    problems: tuple[Problem, ...] = ()
    recipe: str | None = None
    """What the present content calls itself, as far as it can be read."""

    sha256: str | None = field(default=None, compare=False)
    fingerprint: Fingerprint | None = field(default=None, compare=False)
    settled: bool = field(default=False, compare=False)


def look_at(
    path: str, scope: Scope, *, euid: int, known: ManifestFile | None, clock: Callable[[], int]
) -> ManifestFile | None:
    """The file as it is now: `known` itself where nothing has changed, None where it is gone."""
    # Thousands of files are looked at every other second: nothing is made for one that is as it was.
    if known and known.settled and known.scope is scope:
        try:
            if known.fingerprint == _fingerprint(os.lstat(path)):
                return known
        except OSError:  # `_read` tells what it means
            pass
    return _read(Path(path), scope, euid=euid, known=known, now=clock())


def _read(
    path: Path, scope: Scope, *, euid: int, known: ManifestFile | None, now: int
) -> ManifestFile | None:
    try:
        content = read_trusted(path, scope, euid)
    except FileNotFoundError:
        return None
    except UntrustedFileError as error:
        # Whoever may have written this may have written what was there before.
        return ManifestFile(path=path, scope=scope, descriptor=None, problems=error.problems)
    except ManifestError as error:
        return _refused(path, scope, known, error.problems)
    except OSError as error:
        problem = Problem(location="", message=f"cannot stat file: {error.strerror}")
        return _refused(path, scope, known, (problem,))
    last_change = max(content.status.st_mtime_ns, content.status.st_ctime_ns)
    return replace(
        _understood(path, scope, content, known),
        fingerprint=_fingerprint(content.status),
        settled=now - last_change > SETTLED_AFTER_NS,
    )


def _understood(path: Path, scope: Scope, content: Content, known: ManifestFile | None) -> ManifestFile:
    sha256 = hashlib.sha256(content.data).hexdigest()
    if known and known.sha256 == sha256 and known.scope is scope:
        return known
    document: object = None
    try:
        document = read_document(content.data, suffix=path.suffix)
        manifest = parse_manifest(document)
    except ManifestError as error:
        named = document.get("recipe") if isinstance(document, dict) else None
        recipe = named if isinstance(named, str) else None
        return replace(_refused(path, scope, known, error.problems), recipe=recipe, sha256=sha256)
    if known and known.descriptor and known.descriptor.manifest == manifest:
        manifest = known.descriptor.manifest  # reformatted, no more
    source = Source(path=path, scope=scope, sha256=sha256)
    descriptor = Descriptor(manifest=manifest, source=source)
    return ManifestFile(path=path, scope=scope, descriptor=descriptor, recipe=manifest.recipe, sha256=sha256)


def _refused(
    path: Path, scope: Scope, known: ManifestFile | None, problems: tuple[Problem, ...]
) -> ManifestFile:
    """A file that may be half written or out of reach for a moment: what it last said stays."""
    descriptor = known.descriptor if known and known.scope is scope else None
    return ManifestFile(path=path, scope=scope, descriptor=descriptor, problems=problems)


def _fingerprint(status: os.stat_result) -> Fingerprint:
    # Mode and owner are not there for themselves, a change of them shows in ctime; but some network file
    # systems keep no ctime.
    return (
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_size,
        status.st_ino,
        status.st_dev,
        status.st_mode,
        status.st_uid,
    )
