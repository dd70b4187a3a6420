"""zip: its list is looked at before it is taken apart, for Python makes objects of all of it at once."""

from __future__ import annotations

import stat
import zipfile
from typing import IO, Final, cast

from lemonpod.errors import ArchiveError
from lemonpod.install.archive.limits import ENTRIES, Budget
from lemonpod.install.archive.tree import Tree, shown

_ENTRY: Final = b"PK\1\2"
"""What each entry of the list begins with."""
_LARGEST_LIST: Final = 32 << 20
"""Of so many entries, with names of several hundred bytes."""
_LONGEST_TARGET: Final = 4096
_UNIX: Final = 3
_ENCRYPTED: Final = 1


def unpack_zip(file: IO[bytes], tree: Tree, budget: Budget) -> None:
    """Unpack the zip file; raises ArchiveError, and what zipfile raises for damage."""
    with zipfile.ZipFile(cast(IO[bytes], _Watched(file))) as archive:
        for info in archive.filelist:
            _add(archive, info, tree, budget)


def _add(archive: zipfile.ZipFile, info: zipfile.ZipInfo, tree: Tree, budget: Budget) -> None:
    name = info.orig_filename
    mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
    kind = stat.S_IFMT(mode)
    if info.flag_bits & _ENCRYPTED:
        raise ArchiveError(f"'{shown(name)}' is encrypted")
    if mode & (stat.S_ISUID | (0 if name.endswith("/") else stat.S_ISGID)):
        raise ArchiveError(f"'{shown(name)}' would run with the rights of its owner (setuid or setgid)")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise ArchiveError(f"'{shown(name)}' is a device or of another special kind")
    if kind == stat.S_IFDIR or name.endswith("/"):
        tree.folder(name)
        return
    budget.check(info.file_size)
    with archive.open(info) as content:
        if kind == stat.S_IFLNK:
            target = content.read(_LONGEST_TARGET).decode("utf-8", "surrogateescape")
            tree.link(name, target)
        else:
            tree.file(name, _Counted(content, budget), executable=bool(mode & 0o111))


class _Watched:
    """The file as zipfile reads it: its list comes in one piece, whatever is said of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek = file.seek
        self.tell = file.tell
        self.seekable = file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > _LARGEST_LIST:
            raise ArchiveError(f"holds a list of {size} bytes, more than {ENTRIES} entries need")
        data = self._file.read(_LARGEST_LIST if size < 0 else size)
        if data.count(_ENTRY) > ENTRIES:
            raise ArchiveError(f"holds more than {ENTRIES} entries")
        return data


class _Counted:
    """A file of the archive whose bytes are paid for as they come, whatever its header says of them."""

    def __init__(self, content: IO[bytes], budget: Budget) -> None:
        self._content = content
        self._budget = budget

    def read(self, size: int) -> bytes:
        data = self._content.read(size)
        self._budget.spend(len(data))
        return data
