"""A recipe's folder on disk: one writer at a time, installs that appear whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lemonpod.errors import InstallError
from lemonpod.install.partial import PREFIX
from lemonpod.inventory.installed import INSTALL_NAME, find_installs
from lemonpod.launch.installed import FILES, RECEIPT, Install, Receipt, receipt_as_json

_STAGE: Final = ".new-"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Have the folder, made if need be, to oneself; it goes again if nothing is in it at the end.

    Raises InstallError where somebody else has it, or where it cannot be written.
    """
    try:
        descriptor = _own(folder)
    except OSError as error:
        raise InstallError(
            f"{folder} cannot be written: {error.strerror}",
            hint="run the command as the owner of the cache folder, or name another with --cache-dir",
        ) from error
    try:
        for rest in folder.glob(f"{_STAGE}*"):  # of a run that was killed
            _clear(rest)
        yield
    finally:
        with suppress(OSError):
            folder.rmdir()
        os.close(descriptor)


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A new folder with an empty one for files; removed at the end unless it was put in place."""
    stage = folder / f"{_STAGE}install"
    try:
        (stage / FILES).mkdir(parents=True)
        yield stage
    finally:
        _clear(stage)


def put_in_place(stage: Path, folder: Path, receipt: Receipt) -> Install:
    """Make what is staged an install, the newest, in one step, which also a power failure leaves whole."""
    (stage / RECEIPT).write_text(json.dumps(receipt_as_json(receipt), indent=2) + "\n")
    number = max(_numbered(folder).values(), default=0) + 1
    final = folder / f"{number:04}-{receipt.sha256.removeprefix('sha256:')[:12]}"
    _write_through(stage)
    stage.rename(final)
    _synced(folder)
    return Install(number=number, folder=final, receipt=receipt)


def point_to(install: Install, binary: str) -> None:
    """Have `<folder>/<binary>`, where Lemonade looks, lead to the install's. A user's own file stays."""
    folder, target = install.folder.parent, install.executable(binary)
    link = folder / binary
    if target is None or (link.exists() and not link.is_symlink()):
        return
    new = folder / f"{_STAGE}link"
    new.unlink(missing_ok=True)
    new.symlink_to(target.relative_to(folder))
    new.replace(link)


def sweep(folder: Path, keep: Iterable[Install | None]) -> None:
    """Remove every install but those to keep and those that an engine still runs from; and old downloads."""
    kept = {install.folder for install in keep if install is not None}
    for path in _numbered(folder).keys() - kept:
        remove(path)
    for partial in folder.glob(f"{PREFIX}*"):
        partial.unlink(missing_ok=True)
    for entry in folder.iterdir():
        if entry.is_symlink() and not entry.exists():
            entry.unlink()


def in_use(folder: Path) -> Install | None:
    """An install of the recipe that an engine runs from."""
    for install in find_installs(folder).installs:
        with _alone(install.folder) as alone:
            if not alone:
                return install
    return None


def remove(install: Path) -> bool:
    """Remove an install's folder, unless an engine runs from it."""
    with _alone(install) as alone:
        if alone:
            # Out of sight first: half of an install must not be found.
            gone = install.with_name(f"{_STAGE}old")
            install.rename(gone)
            _clear(gone)
        return alone


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether no engine holds the folder; if so, none can take hold of it in the block."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _own(folder: Path) -> int:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
                    return descriptor
            os.close(descriptor)  # removed between the two steps: what is locked is nobody's any more
        except BlockingIOError as error:
            os.close(descriptor)
            raise InstallError(
                f"another command installs or removes this recipe right now, in {folder}",
                hint="wait until it has ended",
            ) from error


def _write_through(folder: Path) -> None:
    """Have the folder on the disk: else its new name may be there before what its files hold."""
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if not path.is_symlink():
                _synced(path)
        _synced(Path(parent))


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _clear(path: Path) -> None:
    """Remove whatever is there; what of a folder cannot be removed now is swept by the next command."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _numbered(folder: Path) -> dict[Path, int]:
    """The folders of all installs with their numbers, also of those whose receipt is damaged."""
    found = {path: INSTALL_NAME.fullmatch(path.name) for path in folder.iterdir() if path.is_dir()}
    return {path: int(match[1]) for path, match in found.items() if match and not path.is_symlink()}
