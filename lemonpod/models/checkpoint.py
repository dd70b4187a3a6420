"""From a checkpoint's text to the file or folder on this machine. Reads only: no lock, no ref is written."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.errors import CheckpointNotFoundError, ConfigError
from lemonpod.models.entry import MAIN, CheckpointFile, CheckpointRef, Origin
from lemonpod.models.gguf import has_magic
from lemonpod.models.parse import has_control
from lemonpod.models.variants import GGUF, listed, pick, shards

_REPO: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]*)/([A-Za-z0-9_][A-Za-z0-9._-]*)")
_REVISION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_FOLDER_PREFIX: Final = {Origin.HUB: "models--", Origin.MODELSCOPE: "modelscope--models--"}
# Left beside a file, or in its folder, by a download that is not over.
_INCOMPLETE: Final = ".incomplete"
_PART_SUFFIXES: Final = (".partial", _INCOMPLETE)
_DOWNLOAD_MANIFEST: Final = ".download_manifest.json"
# Nothing stands in such a file until its download is over; other files may be empty on purpose.
_WEIGHTS: Final = (GGUF, ".safetensors", ".bin", ".pt", ".onnx")
_LEADS_NOWHERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True, slots=True)
class _Repo:
    """`org/repo[:variant]`, taken apart; an empty variant leaves the choice to us."""

    id: str
    folder: str
    variant: str


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a snapshot holds, as sorted relative paths: whole files, and those not (yet) there."""

    files: tuple[str, ...]
    unfinished: tuple[str, ...]


def locate_all(checkpoints: Mapping[str, CheckpointRef], hub: Path) -> dict[str, CheckpointFile]:
    """Every checkpoint of a model, by name."""
    main = checkpoints.get(MAIN)
    return {name: locate(ref, hub, role=name, main=main) for name, ref in checkpoints.items()}


def locate(
    ref: CheckpointRef, hub: Path, *, role: str = MAIN, main: CheckpointRef | None = None
) -> CheckpointFile:
    """Where the checkpoint is, or why it cannot be used. Never raises.

    `role` is the checkpoint's name; one that is not in its own repository is looked for in `main`'s.
    """
    try:
        path = _path(ref, hub, role, main)
        _require_complete(path)
    except (CheckpointNotFoundError, ConfigError) as error:
        return CheckpointFile(ref=ref, path=None, problem=str(error))
    except OSError as error:
        problem = f"{error.filename}: cannot be read: {error.strerror}"
        return CheckpointFile(ref=ref, path=None, problem=problem)
    return CheckpointFile(ref=ref, path=path)


def check_syntax(ref: CheckpointRef) -> None:
    """Raise ConfigError for a text that cannot lead to a file, whatever is on the disk."""
    match ref.origin:
        case Origin.HUB | Origin.MODELSCOPE:
            _parse_repo(ref)
        case Origin.LOCAL_UPLOAD:
            _require_inside(ref.text, ref.text)
        case Origin.LOCAL_PATH:
            if not os.path.isabs(ref.text):
                raise ConfigError(f"'{ref.text}' is not an absolute path on this machine")
            if has_control(ref.text):
                raise ConfigError(f"{ref.text!r} holds a control character")


def split_checkpoint(text: str) -> tuple[str, str]:
    """`org/repo[:variant]` as repository and variant; raises ConfigError for anything else."""
    repo = _parse_repo(CheckpointRef(text=text, origin=Origin.HUB))
    return repo.id, repo.variant


def repo_folder(ref: CheckpointRef) -> str | None:
    """The folder in the cache of the repository that a checkpoint names; None where it names none."""
    repo = _repo_or_none(ref)
    return None if repo is None else repo.folder


def _path(ref: CheckpointRef, hub: Path, role: str, main: CheckpointRef | None) -> Path:
    check_syntax(ref)
    match ref.origin:
        case Origin.LOCAL_PATH:
            return Path(ref.text)
        case Origin.LOCAL_UPLOAD:
            return hub / ref.text
        case Origin.HUB | Origin.MODELSCOPE:
            return _in_repos(_parse_repo(ref), hub, role, _repo_or_none(main))


def _parse_repo(ref: CheckpointRef) -> _Repo:
    repo_id, _, variant = ref.text.partition(":")
    if not (match := _REPO.fullmatch(repo_id)):
        raise ConfigError(
            f"'{ref.text}' is neither 'org/repo' nor 'org/repo:variant' nor an absolute path",
            hint="for a file of your own give its absolute path",
        )
    if variant:
        _require_inside(variant, ref.text)
    return _Repo(repo_id, f"{_FOLDER_PREFIX[ref.origin]}{match[1]}--{match[2]}", variant)


def _require_inside(relative: str, text: str) -> None:
    """A path below a folder and nothing else: joined to it, it must not lead out of it."""
    parts = relative.split("/")
    if "\\" in relative or has_control(relative) or any(part in {"", ".", ".."} for part in parts):
        raise ConfigError(f"'{text}' must name a file by its relative path, without '..' and backslashes")


def _repo_or_none(ref: CheckpointRef | None) -> _Repo | None:
    if ref is None or ref.origin not in _FOLDER_PREFIX:
        return None
    try:
        return _parse_repo(ref)
    except ConfigError:
        return None


def _in_repos(repo: _Repo, hub: Path, role: str, main: _Repo | None) -> Path:
    folders = [hub / repo.folder]
    if main and repo.variant and main.folder != repo.folder:
        folders.append(hub / main.folder)
    known: list[str] = []
    for folder in folders:
        for snapshot in _snapshots(folder):
            listing = _list(snapshot)
            if _DOWNLOAD_MANIFEST in listing.unfinished:
                continue
            if (name := pick(listing.files, repo.variant, role)) is not None:
                return snapshot / name
            if pick(listing.unfinished, repo.variant, role):
                raise _unfinished(repo)
            if folder == folders[0]:
                known += listing.files
    if known:
        models = sorted({name for name in known if name.casefold().endswith(GGUF)} or set(known))
        raise CheckpointNotFoundError(
            f"'{repo.id}' has no file for '{repo.variant or role}'; it has: {listed(models)}",
            hint="register one of these, or fetch it: `lemonpod pull MODEL`",
        )
    if any(folders[0].glob(f"blobs/*{_INCOMPLETE}")) or any(
        folders[0].glob(f"snapshots/*/{_DOWNLOAD_MANIFEST}")
    ):
        raise _unfinished(repo)
    raise CheckpointNotFoundError(
        f"'{repo.id}' is not in the Hugging Face cache {hub}", hint="fetch it: `lemonpod pull MODEL`"
    )


def _unfinished(repo: _Repo) -> CheckpointNotFoundError:
    return CheckpointNotFoundError(
        f"the download of '{repo.id}' is not finished", hint="go on with it: `lemonpod pull MODEL`"
    )


def _snapshots(repo: Path) -> Iterator[Path]:
    """The repository's snapshots: the one that refs/main names, then the others, newest first."""
    try:
        # A cache that was copied by hand may have a line break here.
        active = (repo / "refs" / "main").read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        active = ""
    folder = repo / "snapshots"
    if _REVISION.fullmatch(active) and (folder / active).is_dir():
        yield folder / active
    else:
        active = ""
    try:
        with os.scandir(folder) as entries:
            others = [
                (-entry.stat().st_mtime_ns, entry.name)
                for entry in entries
                if entry.is_dir() and entry.name != active and not entry.name.startswith(".")
            ]
    except (FileNotFoundError, NotADirectoryError):
        return
    yield from (folder / name for _, name in sorted(others))


def _list(snapshot: Path) -> _Listing:
    """Files by their names in the snapshot. Links are asked what they point at, never resolved."""
    files: set[str] = set()
    unfinished: set[str] = set()
    for parent, _, names in os.walk(snapshot, onerror=_raise):
        for name in names:
            path = Path(parent, name)
            relative = path.relative_to(snapshot).as_posix()
            if name.endswith(_PART_SUFFIXES):
                unfinished.add(relative.rpartition(".")[0])
            elif name == _DOWNLOAD_MANIFEST or not _is_whole(path):
                unfinished.add(relative)
            elif not name.startswith(".") and not name.endswith(".lock"):
                files.add(relative)
    return _Listing(tuple(sorted(files - unfinished)), tuple(sorted(unfinished)))


def _raise(error: OSError) -> None:
    raise error


def _is_whole(path: Path) -> bool:
    """Whether the path leads to a file with its content; a link whose blob is gone does not."""
    try:
        status = path.stat()
    except OSError as error:
        if error.errno in _LEADS_NOWHERE:
            return False
        raise
    return stat.S_ISREG(status.st_mode) and (status.st_size > 0 or not path.name.endswith(_WEIGHTS))


def _require_complete(path: Path) -> None:
    """Raise CheckpointNotFoundError unless the file, each of its shards, or the folder is all there."""
    if path.is_dir():
        if unfinished := _list(path).unfinished:
            raise CheckpointNotFoundError(f"{path}: not downloaded completely: {listed(unfinished)}")
        return
    for name in shards(path.name):
        shard = path.with_name(name)
        if not shard.exists():
            raise CheckpointNotFoundError(f"{shard} does not exist")
        if not _is_whole(shard):
            raise CheckpointNotFoundError(f"{shard} is empty, or no file")
        leftovers = [shard.with_name(name + suffix) for suffix in _PART_SUFFIXES]
        if any(part.exists() for part in (*leftovers, shard.with_name(_DOWNLOAD_MANIFEST))):
            raise CheckpointNotFoundError(f"{shard}: its download is not finished")
        if name.casefold().endswith(GGUF) and not has_magic(shard):
            raise CheckpointNotFoundError(
                f"{shard} is no GGUF file: it does not begin as one", hint="delete it and fetch it again"
            )
