"""What in the cache no model can use: contents that are half or have no name, and old snapshots."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.errors import ConfigError, NotDeletableError
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


def find_leftovers(
    hub: Path, used: Mapping[str, Collection[str]], kept: Collection[str], *, remove: bool
) -> list[Leftover]:
    """All of them, and with `remove` they are gone; a repository that somebody fetches into is passed over.

    `used` are, by folder, the repositories whose models are all complete, and the commits that they are
    loaded from: there, snapshots of other commits that have no name either are superseded. Nothing
    unfinished of the folders in `kept` counts. Raises ConfigError for what cannot be removed.
    """
    found: list[Leftover] = []
    for repo in sorted(hub.glob(f"{_PREFIX}*")):
        if not repo.is_dir() or repo.is_symlink():  # a link may lead to more
            continue
        try:
            with suppress(NotDeletableError), removing_from(repo):
                leftovers = list(_of(repo, used.get(repo.name), unfinished=repo.name not in kept))
                if remove:
                    for leftover in leftovers:
                        _remove(leftover)
                found += leftovers
        except OSError as error:
            raise ConfigError(f"{error.filename}: cannot be removed: {error.strerror}") from error
    return found


def _of(repo: Path, used: Collection[str] | None, *, unfinished: bool) -> Iterator[Leftover]:
    name = repo.name.removeprefix(_PREFIX).replace("--", "/")
    pointers = pointers_of(repo)
    snapshots = [] if used is None else _superseded(repo, used)
    live = {blob for path, blob in pointers.items() if not any(old in path.parents for old in snapshots)}
    for old in snapshots:
        own = {path: blob for path, blob in pointers.items() if old in path.parents}
        blobs = {blob for blob in own.values() if blob is not None} - live
        live |= blobs  # of two old snapshots, the first takes what they share
        contents = [*blobs, *(path for path, blob in own.items() if blob is None)]
        size = sum(map(_size, contents))
        yield Leftover(path=old, size=size, kind=SUPERSEDED, repo=name, blobs=tuple(sorted(blobs)))
    linked = set(pointers.values())
    for blob in sorted((repo / "blobs").glob("*")):
        if blob.name.endswith(_PARTIAL):
            if unfinished:
                yield Leftover(path=blob, size=_size(blob), kind=UNFINISHED, repo=name)
        elif blob not in linked:
            yield Leftover(path=blob, size=_size(blob), kind=UNREFERENCED, repo=name)


def _superseded(repo: Path, used: Collection[str]) -> list[Path]:
    """The snapshots whose commit has no name and is no model's."""
    refs = [path for path in (repo / "refs").rglob("*") if path.is_file()]
    named = {path.read_text(encoding="utf-8", errors="replace").strip() for path in refs}
    snapshots = sorted((repo / "snapshots").glob("*"))
    return [path for path in snapshots if path.is_dir() and path.name not in named | set(used)]


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
