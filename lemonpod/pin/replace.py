"""A file's content exchanged in one step, unless the file is not what was read any more."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from lemonpod.errors import LemonpodError
from lemonpod.models.replaced import replaced


class ReplaceError(LemonpodError):
    """A file that stays as it is, and why."""

    code = "replace_refused"


def replace_file(path: Path, old: bytes, new: bytes) -> None:
    """Put `new` in the place of `old`, with mode, owner and attributes kept; raises ReplaceError.

    A link stays a link: the file behind it is replaced. Whoever reads meanwhile reads the one or the other.
    """
    try:
        _replace(Path(os.path.realpath(path)), old, new)
    except OSError as error:
        raise ReplaceError(f"cannot be written: {error.strerror or error}") from error


def _replace(path: Path, old: bytes, new: bytes) -> None:
    with path.open("rb") as file:
        # A rename asks only for the folder to be writable, and a file that is read-only is meant to stay.
        if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise ReplaceError("this user may not write the file", hint="run this as its owner")
        before = os.fstat(file.fileno())
        if file.read(len(old) + 1) != old:
            _changed()
        with replaced(path) as copy:
            _keep_rights(before, file.fileno(), copy.fileno())
            copy.write(new)
            copy.flush()
            os.fsync(copy.fileno())  # before the last look, which is to be late
            if _identity(os.stat(path)) != _identity(before):
                _changed()


def _keep_rights(before: os.stat_result, old: int, new: int) -> None:
    if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.fchown(new, before.st_uid, before.st_gid)
        except PermissionError:
            raise ReplaceError("its owner and group cannot be kept", hint="run this as its owner") from None
    os.fchmod(new, stat.S_IMODE(before.st_mode))
    for name in os.listxattr(old):  # access lists among them
        with contextlib.suppress(OSError):  # some are the kernel's or root's alone
            os.setxattr(new, name, os.getxattr(old, name))


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _changed() -> None:
    raise ReplaceError("the file has changed meanwhile", hint="run this again")
