"""A folder that an archive is unpacked into: nothing outside of it, nothing through a link, nothing twice."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeAlias, TypeVar

from lemonpod.errors import ArchiveError
from lemonpod.install.archive.limits import ENTRIES

Place: TypeAlias = tuple[str, ...]
_T = TypeVar("_T")


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


_BLOCK: Final = 1 << 16
_MAX_NAME: Final = 1024
_MAX_DEPTH: Final = 64


class _Kind(Enum):
    FOLDER = auto()
    FILE = auto()
    LINK = auto()


class Tree:
    """The folder `root`, empty at first. Every method raises ArchiveError for what must not be in it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kinds: dict[Place, _Kind] = {(): _Kind.FOLDER}
        self._links: dict[Place, str] = {}
        self._count = 0

    @property
    def files(self) -> Iterable[str]:
        """Of every file, and of every link to one, its place."""
        for place, kind in self._kinds.items():
            path = "/".join(place)
            if kind is _Kind.FILE or (kind is _Kind.LINK and (self._root / path).is_file()):
                yield path

    def folder(self, name: str) -> None:
        """Make a folder; that it is there already is no harm."""
        self._count_entry()
        self._folders(_place(name), name)

    def file(self, name: str, content: Readable, *, executable: bool) -> None:
        """Write a file with all that `content` gives."""
        path = self._new(name, _Kind.FILE)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = _made(lambda: os.open(path, flags, 0o755 if executable else 0o644), name)
        with open(descriptor, "wb") as file:
            while block := content.read(_BLOCK):
                file.write(block)

    def hard_link(self, name: str, target: str) -> None:
        """One more name of a file that is there already."""
        place = _place(target)
        if self._kinds.get(place) is not _Kind.FILE:
            raise ArchiveError(
                f"'{shown(name)}' is a hard link to '{shown(target)}', which is no file before it"
            )
        path = self._new(name, _Kind.FILE)
        _made(lambda: os.link(self._root.joinpath(*place), path), name)

    def link(self, name: str, target: str) -> None:
        """A symbolic link; made by `finish`, so that nothing is written through it."""
        if not target or target.startswith("/") or not _harmless(target):
            raise ArchiveError(
                f"'{shown(name)}' is a link to '{shown(target)}', which is outside of the archive"
            )
        self._new(name, _Kind.LINK)
        self._links[_place(name)] = target

    def finish(self) -> None:
        """Make the links, and see that each stays inside, also through the others."""
        paths = {"/".join(place): target for place, target in self._links.items()}
        for name, target in paths.items():
            _made(partial(os.symlink, target, self._root / name), name)
        root = os.path.realpath(self._root)
        for name, target in paths.items():
            end = os.path.realpath(self._root / name)
            if os.path.commonpath([root, end]) != root or os.path.islink(end):
                where = "leads in a circle" if os.path.islink(end) else "is outside of the archive"
                raise ArchiveError(f"'{shown(name)}' is a link to '{shown(target)}', which {where}")

    def _new(self, name: str, kind: _Kind) -> Path:
        self._count_entry()
        place = _place(name)
        if place in self._kinds:
            raise ArchiveError(f"holds '{shown(name)}' twice")
        self._folders(place[:-1], name)
        self._kinds[place] = kind
        return self._root.joinpath(*place)

    def _folders(self, place: Place, name: str) -> None:
        for length in range(1, len(place) + 1):
            part = place[:length]
            kind = self._kinds.get(part)
            if kind is None:
                path = self._root.joinpath(*part)
                _made(path.mkdir, name)
                self._kinds[part] = _Kind.FOLDER
                self._check_count(len(self._kinds))
            elif kind is not _Kind.FOLDER:
                raise ArchiveError(f"'{shown(name)}' goes through '{'/'.join(part)}', which is no folder")

    def _count_entry(self) -> None:
        self._count += 1
        self._check_count(self._count)

    def _check_count(self, count: int) -> None:
        if count > ENTRIES:
            raise ArchiveError(f"holds more than {ENTRIES} entries")


def shown(name: str) -> str:
    """A name of an archive, without what a terminal would obey."""
    return name[:200].encode("unicode_escape").decode("ascii")


def _place(name: str) -> Place:
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if not name or name.startswith("/"):
        raise ArchiveError(
            f"holds the absolute name '{shown(name)}'" if name else "holds an entry without a name"
        )
    if ".." in parts:
        raise ArchiveError(f"holds '{shown(name)}', which leads out of it")
    if not _harmless(name) or len(name) > _MAX_NAME or len(parts) > _MAX_DEPTH:
        raise ArchiveError(f"holds a name that no file should have: '{shown(name)}'")
    return parts


def _harmless(name: str) -> bool:
    # A backslash is a separator to those who packed it so, and a part of the name to all others.
    return name.isprintable() and "\\" not in name


def _made(make: Callable[[], _T], name: str) -> _T:
    """What `make` returns; a name that this file system cannot hold is the archive's fault."""
    try:
        return make()
    except OSError as error:
        if error.errno in {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.EEXIST, errno.EMLINK}:
            raise ArchiveError(f"'{shown(name)}' cannot be made here: {error.strerror}") from error
        raise
