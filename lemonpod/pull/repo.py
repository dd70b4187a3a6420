"""What a repository of the hub holds, as a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lemonpod.models.parse import has_control

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_ETAG: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MAX_SIZE: Final = 1 << 62
# In bytes; what file systems take, and what of it leaves room for the folders above.
_MAX_NAME: Final = 240
_MAX_PATH: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file of one commit. `etag` is what the cache calls its content: a sha256, or git's own hash."""

    path: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A repository as of one commit; files sorted by path."""

    repo: str
    commit: str
    files: tuple[RemoteFile, ...]

    def file(self, path: str) -> RemoteFile:
        """The file of that path, which must be one of the listing's."""
        return next(file for file in self.files if file.path == path)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A repository that a search has found, as the hub tells of it."""

    repo: str
    tags: tuple[str, ...]
    task: str
    downloads: int
    likes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Which models the hub has newer files for, and why that is not known of others."""

    outdated: tuple[str, ...]
    unknown: Mapping[str, str]


def listing_in(answer: object, repo: str) -> Listing:
    """The listing that the hub's answer holds; raises ValueError where it holds none.

    Names become paths of ours: none may lead out of the cache, or be in another one's way, whoever answered.
    """
    match answer:
        case {"sha": str(commit), "siblings": list(siblings)} if _COMMIT.fullmatch(commit):
            files = sorted(map(_file_in, siblings), key=lambda file: file.path)
        case _:
            raise ValueError("it names no commit, or no files")
    paths = {file.path for file in files}
    for path in paths:
        folders = path.split("/")[:-1]
        if any("/".join(folders[:count]) in paths for count in range(1, len(folders) + 1)):
            raise ValueError(f"{path!r} lies below another file")
    if len(paths) < len(files):
        raise ValueError("it names a file twice")
    return Listing(repo=repo, commit=commit, files=tuple(files))


def _file_in(sibling: object) -> RemoteFile:
    match sibling:
        case {"rfilename": str(path), "size": int(size), "lfs": {"sha256": str(etag)}}:
            pass
        case {"rfilename": str(path), "size": int(size), "blobId": str(etag)}:
            pass
        case _:
            raise ValueError("a file lacks its name, its size or its hash")
    if _is_odd(path):
        raise ValueError(f"{path[:_MAX_NAME]!r} is no name for a file")
    if not 0 <= size < _MAX_SIZE or not _ETAG.fullmatch(etag):
        raise ValueError(f"the size or the hash of {path!r} is none")
    return RemoteFile(path=path, size=size, etag=etag)


def _is_odd(path: str) -> bool:
    if has_control(path) or "\\" in path or len(path.encode()) > _MAX_PATH:
        return True
    return any(part in {"", ".", ".."} or len(part.encode()) > _MAX_NAME for part in path.split("/"))


def found_in(answer: object) -> list[Found]:
    """The repositories that the hub's answer to a search holds; raises ValueError where it is none."""
    if not isinstance(answer, list):
        raise ValueError("it is no list")
    return list(map(_found_in, answer))


def _found_in(info: object) -> Found:
    match info:
        case {"id": str(repo), **more}:
            tags = more.get("tags")
            return Found(
                repo=repo,
                tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
                task=_text(more.get("pipeline_tag")),
                downloads=_count(more.get("downloads")),
                likes=_count(more.get("likes")),
            )
    raise ValueError("a repository lacks its name")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < _MAX_SIZE else 0
