"""zip: its list is looked at before it is believed, for Python reads all of it at once."""

from __future__ import annotations

import stat
import struct
import zipfile
from typing import IO, Final

from lemonpod.errors import ArchiveError
from lemonpod.install.archive.limits import ENTRIES, Budget
from lemonpod.install.archive.tree import Tree, shown

_END: Final = struct.Struct("<4s4H2LH")
_MARK: Final = b"PK\5\6"
_LONGEST_COMMENT: Final = 0xFFFF
_LARGEST_LIST: Final = 32 << 20
_LONGEST_TARGET: Final = 4096
_UNIX: Final = 3
_ENCRYPTED: Final = 1


def unpack_zip(file: IO[bytes], tree: Tree, budget: Budget) -> None:
    """Unpack the zip file; raises ArchiveError, and what zipfile raises for damage."""
    _check_list(file)
    with zipfile.ZipFile(file) as archive:
        if len(archive.filelist) > ENTRIES:
            raise ArchiveError(f"holds more than {ENTRIES} entries")
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


def _check_list(file: IO[bytes]) -> None:
    """Refuse what would take much memory before it is read; zipfile believes the size alone."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _LONGEST_COMMENT - _END.size))
    tail = file.read()
    place = tail.rfind(_MARK)
    if place < 0 or len(tail) - place < _END.size:
        raise zipfile.BadZipFile("it has no end")
    *_, entries, length, _, _ = _END.unpack_from(tail, place)
    if entries == 0xFFFF or length > _LARGEST_LIST:
        raise ArchiveError("holds too many entries")
    file.seek(0)


class _Counted:
    """A file of the archive whose bytes are paid for as they come, whatever its header says of them."""

    def __init__(self, content: IO[bytes], budget: Budget) -> None:
        self._content = content
        self._budget = budget

    def read(self, size: int) -> bytes:
        data = self._content.read(size)
        self._budget.spend(len(data))
        return data
