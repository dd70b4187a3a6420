"""What a repository of the hub holds, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
