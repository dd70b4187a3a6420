"""Who could have written a manifest: a manifest runs programs, so only its owner may (RFC section 8).

Checked on the open file, so that nothing can be swapped between the check and the reading, and opened so
that neither a link nor a FIFO nor a device can stand in for it.

Every directory above the file is checked too: who may write to one of them may replace the file. A symlink
among them is followed when root or the current user made it (`/home` and macOS's `/tmp` are such links),
and what it leads through is checked the same way; anybody else's link is refused.

The manifests that ship with lemonpod lie beside its code. Who may write there already owns the server, and
an installation under umask 002 is group writable, so their modes and directories are not looked at.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.discovery.paths import Scope
from lemonpod.discovery.read import MAX_BYTES
from lemonpod.errors import ManifestError, Problem, UntrustedFileError

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_USER_SCOPES: Final = (Scope.USER_CONFIG, Scope.USER_CACHE)
_MOST_LINKS: Final = 40  # where Linux gives up, too


@dataclass(frozen=True, slots=True)
class Content:
    """What a trusted file held, cut one byte above the size limit, and its status just before."""

    data: bytes
    status: os.stat_result


def read_trusted(path: Path, scope: Scope | None, euid: int) -> Content:
    """The content of `path`; without a scope it is in no discovery directory and may be anybody's.

    Raises UntrustedFileError with the reason, FileNotFoundError where it is gone, and ManifestError where
    the system does not let us read it.
    """
    try:
        _check(os.lstat(path), path, scope, euid)  # a device must not even be opened
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable("cannot stat file", error) from error
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link since a moment ago
            raise UntrustedFileError(path, "symlinked descriptor files are not permitted") from error
        raise _unreadable("cannot open file", error) from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _check(status, path, scope, euid)
        try:
            return Content(file.read(MAX_BYTES + 1), status)
        except OSError as error:
            raise _unreadable("cannot read file", error) from error


def directory_problems(directory: Path, scope: Scope, euid: int) -> tuple[Problem, ...]:
    """Why the files in `directory` cannot be trusted; raises OSError where it cannot be followed."""
    if scope is Scope.SHIPPED:
        return ()
    problems: list[Problem] = []
    for path, status in _ancestry(directory.absolute()):
        if stat.S_ISLNK(status.st_mode):
            if status.st_uid not in (0, euid):
                hint = f"it belongs to UID {status.st_uid}; replace it by a directory of your own"
                problems.append(_problem(f"ancestor directory '{path}' is a symlink", hint))
                break
        elif status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX:
            reason = f"ancestor directory '{path}' is group/world writable without the sticky bit"
            problems.append(_problem(reason, f"chmod go-w {shlex.quote(str(path))}"))
    return tuple(problems)


def _check(status: os.stat_result, path: Path, scope: Scope | None, euid: int) -> None:
    """Raises UntrustedFileError where a file of this status is not to be trusted."""
    name = shlex.quote(str(path))
    if stat.S_ISLNK(status.st_mode):
        reason, hint = "symlinked descriptor files are not permitted", "put the file itself there"
    elif not stat.S_ISREG(status.st_mode):
        reason, hint = "not a regular file", None
    elif status.st_mode & _OTHERS_WRITE and scope is not Scope.SHIPPED:
        reason, hint = "file is group or world writable (mode & 0022)", f"chmod go-w {name}"
    elif scope is Scope.SYSTEM and status.st_uid != 0:
        reason, hint = "system descriptor is not owned by root (UID 0)", f"chown root {name}"
    elif (scope in _USER_SCOPES and status.st_uid != euid) or (
        scope is Scope.SHIPPED and status.st_uid not in (0, euid)
    ):
        reason = "descriptor owner UID does not match the current user"
        hint = f"it belongs to UID {status.st_uid}, the server runs as {euid}: chown {euid} {name}"
    else:
        return
    raise UntrustedFileError(path, reason, hint=hint)


def _ancestry(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every directory and link that the system passes through on its way to `directory`, and itself."""
    current = Path(directory.anchor)
    yield current, os.lstat(current)
    ahead = list(reversed(directory.parts[1:]))
    links = 0
    while ahead:
        step = ahead.pop()
        if step == "..":
            current = current.parent
            continue
        path = current / step
        status = os.lstat(path)
        yield path, status
        if not stat.S_ISLNK(status.st_mode):
            current = path
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(directory))
        target = Path(os.readlink(path))
        if target.is_absolute():
            current = Path(target.anchor)
        ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)


def _problem(message: str, hint: str | None = None) -> Problem:
    return Problem(location="", message=message, hint=hint)


def _unreadable(what: str, error: OSError) -> ManifestError:
    return ManifestError([_problem(f"{what}: {error.strerror}")])
