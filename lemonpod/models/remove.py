"""What on the disk is one model's and nobody else's, and taking it away."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

from lemonpod.errors import CheckpointNotFoundError, ConfigError
from lemonpod.models.checkpoint import check_syntax, repo_folder, split_checkpoint
from lemonpod.models.entry import MAIN, CheckpointRef, ModelEntry, Origin
from lemonpod.models.reach import needed_for, own_paths, place
from lemonpod.models.repo_lock import removing_from
from lemonpod.models.variants import pick, shards

_IN_CACHE: Final = frozenset({Origin.HUB, Origin.MODELSCOPE})

Pointers: TypeAlias = dict[Path, Path | None]
"""Every name in a repository's snapshots, and the blob that it leads to, if it is a link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Removal:
    """What goes: names in snapshots, contents that no other name leads to, and folders left with nothing."""

    files: tuple[Path, ...] = ()
    blobs: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()


def remove_files(entry: ModelEntry, others: Iterable[ModelEntry], hub: Path) -> None:
    """Remove what of a model's files in the cache is its alone.

    Raises NotDeletableError while somebody fetches some, and ConfigError where one cannot be removed.
    """
    with ExitStack() as held:
        try:
            for folder in sorted(_folders(entry)):
                held.enter_context(removing_from(hub / folder))
        except OSError as error:
            raise _cannot_remove(error) from error
        _carry_out(_plan(entry, others, hub), hub)


def _plan(entry: ModelEntry, others: Iterable[ModelEntry], hub: Path) -> _Removal:
    """What of a model's files in the cache is its alone. Reads the disk.

    Paths of the user's own stay, and so does what another registered model would load, be it by its path,
    and every file that no registered model means.
    """
    others = tuple(others)
    needed = needed_for(own_paths(others))
    files: list[Path] = []
    blobs: set[Path] = set()
    folders: list[Path] = []
    for folder in sorted(_folders(entry)):
        repo = hub / folder
        pointers = pointers_of(repo)
        own = _meant(entry, folder, hub) - {name for other in others for name in _meant(other, folder, hub)}
        gone = {path for path in pointers if _name(path, repo) in own and place(path) not in needed}
        is_whole = gone == pointers.keys() and not repo.is_symlink()  # a link may lead to more
        is_shared = any(folder in _folders(other) for other in others)
        if is_whole and not is_shared and not any(place(repo) in path.parents for path in needed):
            folders += [path for path in (repo, hub / ".locks" / folder) if path.is_dir()]
            continue
        left = {blob for path, blob in pointers.items() if path not in gone}
        files += sorted(gone)
        blobs |= {
            blob
            for path in gone
            if (blob := pointers[path]) is not None and blob not in left and place(blob) not in needed
        }
    used = {ref.text for other in others for ref in _uploads(other)}
    files += [
        hub / ref.text for ref in _uploads(entry) if ref.text not in used and (hub / ref.text).is_file()
    ]
    return _Removal(files=tuple(files), blobs=tuple(sorted(blobs)), folders=tuple(folders))


def _carry_out(removal: _Removal, hub: Path) -> None:
    """Carry it out. Raises ConfigError where something cannot be removed."""
    try:
        for folder in removal.folders:
            shutil.rmtree(folder)
        for path in (*removal.files, *removal.blobs):
            path.unlink(missing_ok=True)
        for path in removal.files:
            _prune(path.parent, hub)
    except OSError as error:
        raise _cannot_remove(error) from error


def _cannot_remove(error: OSError) -> ConfigError:
    return ConfigError(
        f"{error.filename}: cannot be removed: {error.strerror}", hint="the model stays registered"
    )


def _folders(entry: ModelEntry) -> set[str]:
    folders = {repo_folder(ref) for ref in entry.checkpoints.values() if ref.origin in _IN_CACHE}
    return {folder for folder in folders if folder is not None}


def _uploads(entry: ModelEntry) -> Iterator[CheckpointRef]:
    """Those that lead to a file in the cache."""
    for ref in entry.checkpoints.values():
        if ref.origin is Origin.LOCAL_UPLOAD:
            with suppress(ConfigError):
                check_syntax(ref)
                yield ref


def _meant(entry: ModelEntry, folder: str, hub: Path) -> set[PurePosixPath]:
    """The names in a repository that a model's checkpoints mean, whether they are whole or not."""
    meant: set[PurePosixPath] = set()
    main = entry.checkpoints.get(MAIN)
    for role, ref in entry.checkpoints.items():
        own = repo_folder(ref)
        if own is None or ref.origin not in _IN_CACHE:
            continue
        found = _chosen(ref, role, hub / own)
        if not found and main is not None and (borrowed := repo_folder(main)) not in {None, own}:
            own, found = borrowed, _chosen(ref, role, hub / str(borrowed))
        if own == folder:
            meant |= found
    return meant


def _chosen(ref: CheckpointRef, role: str, repo: Path) -> set[PurePosixPath]:
    names = sorted({str(_name(path, repo)) for path in pointers_of(repo)})
    try:
        chosen = pick(names, split_checkpoint(ref.text)[1], role)
    except (CheckpointNotFoundError, ConfigError):  # it means none of them
        return set()
    if chosen is None:
        return set()
    path = PurePosixPath(chosen)
    if chosen in names:
        return {path.with_name(shard) for shard in shards(path.name)}
    return {PurePosixPath(name) for name in names if not chosen or path in PurePosixPath(name).parents}


def pointers_of(repo: Path) -> Pointers:
    """Every name in the snapshots of a repository of the cache."""
    pointers: Pointers = {}
    blobs = place(repo / "blobs" / "any").parent
    for parent, _, names in os.walk(repo / "snapshots"):
        for name in names:
            path = Path(parent, name)
            target = place(path.parent / path.readlink()) if path.is_symlink() else None
            pointers[path] = repo / "blobs" / target.name if target and target.parent == blobs else None
    return pointers


def _name(path: Path, repo: Path) -> PurePosixPath:
    """The file's name in its repository, the same in every snapshot."""
    return PurePosixPath(*path.relative_to(repo / "snapshots").parts[1:])


def _prune(folder: Path, top: Path) -> None:
    """Remove folders that are left empty, below `top`."""
    while folder != top and folder.is_relative_to(top) and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
