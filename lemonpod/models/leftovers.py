"""What in the cache no model can use: contents that are half or have no name, and old snapshots."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from lemonpod.errors import ConfigError, NotDeletableError
from lemonpod.models.reach import passed, place
from lemonpod.models.remove import pointers_of
from lemonpod.models.repo_lock import removing_from

UNFINISHED: Final = "unfinished"
UNREFERENCED: Final = "unreferenced"
SUPERSEDED: Final = "superseded"

_PREFIX: Final = "models--"
_PARTIAL: Final = ".incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One file, or one snapshot with what is its alone."""

    path: Path
    size: int
    kind: str
    repo: str
    blobs: tuple[Path, ...] = ()
    """Contents that only this snapshot leads to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse:
    """What of the cache the registered models need."""

    commits: Mapping[str, Collection[str]]
    """By folder, those that models are loaded from, of the repositories where all of that is known."""
    places: Collection[Path] = ()
    """All that must stay, as `needed_for` has it."""


_Ways: TypeAlias = dict[Path, frozenset[Path]]
"""Every name in snapshots, and the places on the way from it to its content."""


def find_leftovers(hub: Path, used: InUse, kept: Collection[str], *, remove: bool) -> list[Leftover]:
    """All of them, and with `remove` they are gone; a repository that somebody fetches into is passed over.

    Of the repositories whose commits in use are known, snapshots of other commits that have no name either
    are superseded. Nothing unfinished of the folders in `kept` counts. Raises ConfigError for what cannot
    be removed.
    """
    found: list[Leftover] = []
    repos = sorted(hub.glob(f"{_PREFIX}*"))
    ways = _ways(repos)  # names of other repositories may lead here
    for repo in filter(_is_plain, repos):
        try:
            with suppress(NotDeletableError), removing_from(repo):
                leftovers = list(_of(repo, used, ways | _ways([repo]), unfinished=repo.name not in kept))
                if remove:
                    for leftover in leftovers:
                        _remove(leftover)
                found += leftovers
        except OSError as error:
            raise ConfigError(f"{error.filename}: cannot be removed: {error.strerror}") from error
    return found


def _is_plain(repo: Path) -> bool:
    """Whether all in it is its own: a link may lead to more."""
    return repo.is_dir() and not any(path.is_symlink() for path in (repo, repo / "blobs", repo / "snapshots"))


def _ways(repos: Iterable[Path]) -> _Ways:
    return {place(name): frozenset(passed(name)) for repo in repos for name in pointers_of(repo)}


def _of(repo: Path, used: InUse, ways: _Ways, *, unfinished: bool) -> Iterator[Leftover]:
    name = repo.name.removeprefix(_PREFIX).replace("--", "/")
    pointers = pointers_of(repo)
    commits = used.commits.get(repo.name)
    snapshots = [] if commits is None else _superseded(repo, commits)
    snapshots = [old for old in snapshots if not _is_passed(place(old), ways, used)]
    left = (way for start, way in ways.items() if not any(place(old) in start.parents for old in snapshots))
    live = set(used.places).union(*left)
    for old in snapshots:
        own = {path: blob for path, blob in pointers.items() if old in path.parents}
        blobs = {blob for blob in own.values() if blob is not None and place(blob) not in live}
        live |= set(map(place, blobs))  # of two old snapshots, the first takes what they share
        contents = [*blobs, *(path for path, blob in own.items() if blob is None)]
        size = sum(map(_size, contents))
        yield Leftover(path=old, size=size, kind=SUPERSEDED, repo=name, blobs=tuple(sorted(blobs)))
    linked = set(used.places).union(*ways.values())
    for blob in sorted((repo / "blobs").glob("*")):
        if blob.is_symlink() or not blob.is_file():
            continue  # none of huggingface_hub's
        if blob.name.endswith(_PARTIAL):
            if unfinished:
                yield Leftover(path=blob, size=_size(blob), kind=UNFINISHED, repo=name)
        elif place(blob) not in linked:
            yield Leftover(path=blob, size=_size(blob), kind=UNREFERENCED, repo=name)


def _superseded(repo: Path, used: Collection[str]) -> list[Path]:
    """The snapshots whose commit has no name and is no model's."""
    refs = [path for path in (repo / "refs").rglob("*") if path.is_file()]
    named = {path.read_text(encoding="utf-8", errors="replace").strip() for path in refs}
    snapshots = sorted((repo / "snapshots").glob("*"))
    named |= {path.resolve().name for path in snapshots if path.is_symlink()}
    own = (path for path in snapshots if path.is_dir() and not path.is_symlink())
    return [path for path in own if path.name not in named | set(used)]


def _is_passed(snapshot: Path, ways: _Ways, used: InUse) -> bool:
    """Whether models, or names out of other snapshots, lead through it."""
    others = (way for start, way in ways.items() if snapshot not in start.parents)
    return any(snapshot in step.parents for way in (used.places, *others) for step in way)


def _remove(leftover: Leftover) -> None:
    if leftover.kind == SUPERSEDED:
        shutil.rmtree(leftover.path)
    for path in (*leftover.blobs, *([] if leftover.kind == SUPERSEDED else [leftover.path])):
        path.unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:  # a link that leads nowhere
        return 0
