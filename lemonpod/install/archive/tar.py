"""tar, read as a stream: what it says is taken for a wish, and most wishes are refused."""

from __future__ import annotations

import stat
import tarfile
from pathlib import Path
from typing import IO, Final, cast

from lemonpod.errors import ArchiveError
from lemonpod.install.archive.limits import Budget
from lemonpod.install.archive.tree import Tree, shown

_BLOCK: Final = tarfile.BLOCKSIZE
_LARGEST_READ: Final = 1 << 18
"""Of a name or of attributes, which tarfile reads into memory at once."""
_LONGEST_TAIL: Final = 16 << 20
"""Tapes are filled up to a whole record, which the largest make of some MiB."""
_UNWANTED: Final = {
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


def unpack_tar(stream: IO[bytes], tree: Tree, budget: Budget, root: Path) -> None:
    """Unpack the tar file that `stream` gives; raises ArchiveError, and what tarfile raises for damage."""
    reader = _Forward(stream, budget)
    with tarfile.TarFile(fileobj=cast(IO[bytes], reader), mode="r") as tar:
        while (member := tar.next()) is not None:
            _add(tar, member, tree, budget, root)
            tar.members.clear()  # type: ignore[attr-defined]  # it would keep all of them
    if reader.last.strip(b"\0") or len(reader.last) < _BLOCK:
        raise tarfile.ReadError("it has no end")
    end = reader.tell()
    while reader.read(_LARGEST_READ):  # to the end, where a packed stream has its checksum
        if reader.tell() - end > _LONGEST_TAIL:
            raise ArchiveError(f"goes on for more than {_LONGEST_TAIL >> 20} MiB behind its end")


def _add(tar: tarfile.TarFile, member: tarfile.TarInfo, tree: Tree, budget: Budget, root: Path) -> None:
    name = member.name
    if member.mode & (stat.S_ISUID | (0 if member.isdir() else stat.S_ISGID)):
        raise ArchiveError(f"'{shown(name)}' would run with the rights of its owner (setuid or setgid)")
    if member.isdir():
        tree.folder(name)
    elif member.issym():
        _look_again(member, root)
        tree.link(name, member.linkname)
    elif member.islnk():
        _look_again(member, root)
        tree.hard_link(name, member.linkname)
    elif member.isreg() and not member.issparse():
        budget.check(member.size)
        content = tar.extractfile(member)
        assert content is not None  # noqa: S101 - of a regular file there always is
        tree.file(name, content, executable=bool(member.mode & 0o111))
    else:
        what = "a sparse file" if member.issparse() else _UNWANTED.get(member.type, "of an unknown kind")
        raise ArchiveError(f"'{shown(name)}' is {what}")


def _look_again(member: tarfile.TarInfo, root: Path) -> None:
    """Python's own opinion of a link, beside ours; older patch releases of 3.11 have none."""
    if hasattr(tarfile, "data_filter"):
        try:
            tarfile.data_filter(member, str(root))
        except tarfile.FilterError as error:
            raise ArchiveError(f"is refused by Python: {error}") from error


class _Forward:
    """The file object that tarfile needs: it moves only forward, and reads no more than a header at once."""

    def __init__(self, stream: IO[bytes], budget: Budget) -> None:
        self._stream = stream
        self._budget = budget
        self._position = 0
        self.last = b""
        """What the last read gave; at the end of a whole tar file a block of zeros."""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LARGEST_READ:
            raise ArchiveError(f"has a header of {size} bytes")
        data = b""
        while len(data) < size and (more := self._stream.read(size - len(data))):
            data += more
        self._position += len(data)
        self._budget.spend(len(data))
        self.last = data
        return data

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        if position < self._position:
            raise tarfile.ReadError("it leads back")
        while self._position < position and self.read(min(_LARGEST_READ, position - self._position)):
            pass
