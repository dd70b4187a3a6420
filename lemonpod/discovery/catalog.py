"""Which manifests there are: every file of every directory, accepted or refused with a reason.

A scan first looks (`_look`: what is in the directories, reusing what has not changed) and then decides
(`_decide`, a function of what was seen). A file that does not parse keeps its last good content, so a
half-written edit takes nothing away, and neither does a directory that cannot be read for a moment; a file
that is gone or no longer to be trusted is dropped. No file can stop a scan.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import is_
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lemonpod.contract.inherit import resolve_extends
from lemonpod.discovery.files import SETTLED_AFTER_NS, Descriptor, ManifestFile, Source, look_at
from lemonpod.discovery.paths import DiscoveryPaths, Scope
from lemonpod.discovery.read import SUFFIXES
from lemonpod.discovery.trust import directory_problems
from lemonpod.errors import Problem

__all__ = [
    "Catalog",
    "Changes",
    "Descriptor",
    "Rejected",
    "Scope",
    "Source",
    "built_in_collision",
    "changes",
    "manifest_names",
    "scan",
]

# Hidden files, and what editors leave while they save: .x.json.swp, .#x.json, #x.json#, ~x.json.
_IGNORED_STARTS: Final = (".", "#", "~")
_SUFFIXES: Final = tuple(SUFFIXES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A file (or a whole directory) that is refused; `kept`: its last good content still counts."""

    path: Path
    scope: Scope
    recipe: str | None
    problems: tuple[Problem, ...]
    kept: bool = False
    replaced: bool = False
    """A shipped manifest that is fine, and whose place one of the user's takes: nothing to mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Directory:
    """A directory as it was seen. `distrust` drops its files, `unreadable` leaves them as they were."""

    path: Path
    scope: Scope
    files: tuple[ManifestFile, ...] = ()
    distrust: tuple[Problem, ...] = ()
    unreadable: Problem | None = None
    stamp: tuple[int, int] | None = field(default=None, compare=False)
    """Its times (mtime, ctime in ns) when its names were listed, if they had settled by then."""
    by_place: Mapping[str, ManifestFile] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_place", {str(file.path): file for file in self.files})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What a catalog was decided from."""

    directories: tuple[_Directory, ...] = ()
    builtin: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The accepted manifests by recipe, with what they inherit, and everything that was refused."""

    descriptors: Mapping[str, Descriptor]
    rejected: tuple[Rejected, ...]
    _seen: _Seen = field(default_factory=_Seen, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The recipes in which two catalogs differ."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def scan(
    paths: DiscoveryPaths,
    previous: Catalog | None,
    *,
    builtin: frozenset[str],
    euid: int,
    clock: Callable[[], int] = time.time_ns,
) -> Catalog:
    """The catalog of what is in `paths` now; manifests that `previous` has too are the same objects."""
    known = previous._seen if previous else _Seen()
    seen = _Seen(directories=tuple(_look(paths, known, euid, clock)), builtin=builtin)
    if previous and seen == known:
        return replace(previous, _seen=seen)
    return _decide(seen, previous)


def changes(old: Catalog | None, new: Catalog) -> Changes:
    """What a reader of `old` has to know about `new`."""
    before = old.descriptors if old else {}
    after = new.descriptors
    return Changes(
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(
            recipe
            for recipe in sorted(after.keys() & before.keys())
            if after[recipe].manifest != before[recipe].manifest
        ),
        removed=tuple(sorted(before.keys() - after.keys())),
    )


def built_in_collision(recipe: str) -> Problem:
    """What a manifest is refused with that takes the name of a built-in backend."""
    message = f"recipe '{recipe}' collides with a built-in backend"
    return Problem(location="", message=message, hint="choose another name")


def _look(paths: DiscoveryPaths, known: _Seen, euid: int, clock: Callable[[], int]) -> Iterator[_Directory]:
    known_directories = {directory.path: directory for directory in known.directories}
    identities = set()
    for scope, path in paths:
        before = known_directories.get(path, _Directory(path=path, scope=scope))
        known_files = before.by_place
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in identities:
                continue  # one directory under two names
            identities.add((status.st_dev, status.st_ino))
            distrust = directory_problems(path, scope, euid)
            stamp = (status.st_mtime_ns, status.st_ctime_ns)
            if before.stamp == stamp:
                places: Iterable[str] = known_files
            else:
                places = map(os.path.join(path, "").__add__, manifest_names(path))
        except FileNotFoundError:
            continue
        except OSError as error:
            problem = Problem(
                location="",
                message=f"cannot read directory: {error.strerror}",
                hint=f"let UID {euid} in, or use other folders",
            )
            yield replace(before, scope=scope, unreadable=problem)
            continue
        files = (
            look_at(place, scope, euid=euid, known=known_files.get(place), clock=clock) for place in places
        )
        settled = stamp if clock() - max(stamp) > SETTLED_AFTER_NS else None
        now = tuple(file for file in files if file is not None)
        same = len(now) == len(before.files) and all(map(is_, now, before.files))
        if same and (scope, distrust, None, settled) == (
            before.scope,
            before.distrust,
            before.unreadable,
            before.stamp,
        ):
            yield before  # with what it knows of its files
        else:
            yield _Directory(path=path, scope=scope, files=now, distrust=distrust, stamp=settled)


def manifest_names(directory: Path) -> list[str]:
    """The names of the files in `directory` that a scan takes for manifests; raises OSError."""
    names = os.listdir(directory)
    return sorted(
        name for name in names if name.lower().endswith(_SUFFIXES) and not name.startswith(_IGNORED_STARTS)
    )


def _decide(seen: _Seen, previous: Catalog | None) -> Catalog:
    chosen, refused = _choose(seen)
    manifests = {recipe: descriptor.manifest for recipe, descriptor in chosen.items()}
    resolved, dropped = resolve_extends(manifests)
    refused |= {chosen[recipe].source.path: problem for recipe, problem in dropped.items()}
    before = previous.descriptors if previous else {}
    descriptors = {}
    for recipe, manifest in resolved.items():
        if recipe in before and before[recipe].manifest == manifest:
            manifest = before[recipe].manifest
        descriptors[recipe] = replace(chosen[recipe], manifest=manifest)
    return Catalog(
        descriptors=MappingProxyType(descriptors),
        rejected=tuple(_rejected(seen, descriptors, refused)),
        _seen=seen,
    )


def _choose(seen: _Seen) -> tuple[dict[str, Descriptor], dict[Path, Problem]]:
    """For each recipe the first file that provides it, and why the others do not."""
    chosen: dict[str, Descriptor] = {}
    refused: dict[Path, Problem] = {}
    for directory in seen.directories:
        for file in directory.files:
            if directory.distrust or file.descriptor is None:
                continue
            recipe = file.descriptor.manifest.recipe
            if recipe in seen.builtin:
                refused[file.path] = built_in_collision(recipe)
            elif recipe in chosen:
                refused[file.path] = Problem(
                    location="",
                    message=f"recipe '{recipe}' already provided by a higher-priority path",
                    hint=f"by {chosen[recipe].source.path}",
                )
            else:
                chosen[recipe] = file.descriptor
    return chosen, refused


def _rejected(
    seen: _Seen, descriptors: Mapping[str, Descriptor], refused: Mapping[Path, Problem]
) -> Iterator[Rejected]:
    in_use = {descriptor.source.path for descriptor in descriptors.values()}
    for directory in seen.directories:
        if directory.unreadable:
            yield Rejected(
                path=directory.path, scope=directory.scope, recipe=None, problems=(directory.unreadable,)
            )
        for file in directory.files:
            problems = (*directory.distrust, *file.problems)
            if file.path in refused:
                problems = (*problems, refused[file.path])
            if problems:
                yield Rejected(
                    path=file.path,
                    scope=file.scope,
                    recipe=file.recipe,
                    problems=problems,
                    kept=file.path in in_use,
                    replaced=(
                        directory.scope is Scope.SHIPPED
                        and problems == (refused.get(file.path),)
                        and file.recipe in descriptors
                    ),
                )
