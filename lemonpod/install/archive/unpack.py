"""From a fetched file to a folder with an executable, or to the reason why not."""

from __future__ import annotations

import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

from lemonpod.errors import ArchiveError
from lemonpod.install.archive.limits import Budget
from lemonpod.install.archive.packed import unbzipped, ungzipped, unxzed
from lemonpod.install.archive.tar import unpack_tar
from lemonpod.install.archive.tree import Tree
from lemonpod.install.archive.zip import unpack_zip


class Form(StrEnum):
    TAR = "tar"
    TAR_GZ = "tar.gz"
    TAR_BZ2 = "tar.bz2"
    TAR_XZ = "tar.xz"
    ZIP = "zip"
    BARE = "an executable"


_ENDINGS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        ".tar": Form.TAR,
        ".tar.gz": Form.TAR_GZ,
        ".tgz": Form.TAR_GZ,
        ".tar.bz2": Form.TAR_BZ2,
        ".tbz2": Form.TAR_BZ2,
        ".tar.xz": Form.TAR_XZ,
        ".txz": Form.TAR_XZ,
        ".zip": Form.ZIP,
    }
)
_BEGINNINGS: Final[Mapping[bytes, Form]] = MappingProxyType(
    {
        b"\x1f\x8b": Form.TAR_GZ,
        b"BZh": Form.TAR_BZ2,
        b"\xfd7zXZ\0": Form.TAR_XZ,
        b"PK\3\4": Form.ZIP,
        b"PK\5\6": Form.ZIP,
        b"\x7fELF": Form.BARE,
        b"#!": Form.BARE,
        b"MZ": Form.BARE,
        b"\xcf\xfa\xed\xfe": Form.BARE,
        b"\xca\xfe\xba\xbe": Form.BARE,
    }
)
_OTHER_ARCHIVES: Final = (".7z", ".bz2", ".deb", ".dmg", ".gz", ".lz4", ".msi", ".rar", ".rpm", ".xz", ".zst")
_TAR_MARK: Final = slice(257, 262), b"ustar"
_STREAMS: Final[Mapping[Form, Callable[[IO[bytes]], IO[bytes]]]] = MappingProxyType(
    {
        Form.TAR: lambda file: file,
        Form.TAR_GZ: ungzipped,
        Form.TAR_BZ2: unbzipped,
        Form.TAR_XZ: unxzed,
    }
)
_DAMAGE: Final = (
    EOFError,
    MemoryError,
    NotImplementedError,
    RecursionError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What the standard library raises for archives that are damaged, on purpose or not."""


def unpack(file: Path, name: str, root: Path, binaries: Iterable[str], *, pinned: bool) -> dict[str, str]:
    """Unpack `file`, fetched as `name`, into the empty folder `root`; returns where each of `binaries` is.

    One that is not there is left out. A bare executable becomes all of them. Raises ArchiveError and OSError;
    what is in `root` then is the caller's to remove.
    """
    form = form_of(file, name, pinned=pinned)
    budget = Budget.of(file.stat().st_size)
    tree = Tree(root)
    try:
        with file.open("rb") as packed:
            if form is Form.BARE:
                for binary in binaries:
                    packed.seek(0)
                    tree.file(binary, packed, executable=True)
            elif form is Form.ZIP:
                unpack_zip(packed, tree, budget)
            else:
                with _STREAMS[form](packed) as stream:
                    unpack_tar(stream, tree, budget, root)
        tree.finish()
    except ArchiveError as error:
        raise ArchiveError(f"failed to extract {name}: it {error.message}", hint=error.hint) from error
    except _DAMAGE as error:
        raise ArchiveError(f"failed to extract {name}: it is no whole {form}: {error}") from error
    except OSError as error:
        if error.errno is None:  # of gzip and bz2, which have no errors of their own
            raise ArchiveError(f"failed to extract {name}: it is no whole {form}: {error}") from error
        raise
    found = {binary: place for binary in binaries if (place := _find(binary, tree.files)) is not None}
    for place in found.values():
        _make_executable(root / place)
    return found


def form_of(file: Path, name: str, *, pinned: bool) -> Form:
    """What the file is by its first bytes, else by its name; raises ArchiveError for what cannot be used.

    A pinned file is what its author meant. One that is not may as well be a page that says "not found".
    """
    with file.open("rb") as content:
        head = content.read(512)
    for beginning, form in _BEGINNINGS.items():
        if head.startswith(beginning):
            return form
    place, mark = _TAR_MARK
    if head[place] == mark:
        return Form.TAR
    lower = name.lower()
    for ending, form in _ENDINGS.items():
        if lower.endswith(ending):
            raise ArchiveError(f"failed to extract {name}: it is no {form}", hint=_beginning(head))
    if lower.endswith(_OTHER_ARCHIVES):
        supported = ", ".join(form for form in Form if form is not Form.BARE)
        raise ArchiveError(
            f"failed to extract {name}: it is no archive of a known form", hint=f"known are {supported}"
        )
    if not pinned:
        raise ArchiveError(f"{name} is neither an archive nor an executable", hint=_beginning(head))
    return Form.BARE


def _beginning(head: bytes) -> str:
    return f"it begins with {head[:40]!r}"


def _find(binary: str, files: Iterable[str]) -> str | None:
    """The place of the file of that name that is least deep: many archives wrap everything in a folder."""
    places = [place for place in files if place.rpartition("/")[2] == binary]
    return min(places, key=lambda place: (place.count("/"), place), default=None)


def _make_executable(path: Path) -> None:
    """Also where the archive knows no modes, as many zip files; whoever may read it may run it."""
    mode = stat.S_IMODE(path.stat().st_mode)
    os.chmod(path, mode | (mode & 0o444) >> 2)
