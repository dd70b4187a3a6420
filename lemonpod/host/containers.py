"""What of this machine decides whether containers run: user namespaces, ranges of ids, cgroups, SELinux.

Reads only. A file that is not there is an unknown fact, which is None and no finding.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.host.user import User

FIRST_ID: Final = 100_000
"""Where distributions begin the ranges that they hand out, a range being this many ids long:"""
RANGE: Final = 65_536

_CAPABILITIES: Final = "security.capability"


@dataclass(frozen=True, slots=True)
class IdRanges:
    """Of /etc/subuid or /etc/subgid: how many ids a user has, and the first that nobody has."""

    count: int
    free: int


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The version, and which controllers limit what an engine of a user starts."""

    version: int
    controllers: frozenset[str]


def id_ranges(root: Path, file: str, user: User) -> IdRanges | None:
    """What `file`, as `subuid`, gives to a user; None where another service than the file says it."""
    if "subid" in _services(_text(root / "etc/nsswitch.conf")):
        return None
    count, free = 0, FIRST_ID
    for line in _text(root / "etc" / file).splitlines():
        owner, _, numbers = line.strip().partition(":")
        first, _, length = numbers.partition(":")
        if owner.startswith("#") or not (first.isdecimal() and length.isdecimal()):
            continue
        free = max(free, int(first) + int(length))
        if owner in {user.name, str(user.uid)}:
            count += int(length)
    return IdRanges(count, free)


def user_namespaces(root: Path) -> str | None:
    """The setting that keeps users from making user namespaces, or None where none does."""
    for name in ("user.max_user_namespaces", "kernel.unprivileged_userns_clone"):
        if _text(root / "proc/sys" / name.replace(".", "/")).strip() == "0":
            return name
    return None


def may_map_ids(program: Path) -> bool:
    """Whether a program as newuidmap has the rights that it needs: setuid root, or file capabilities."""
    try:
        status = program.stat()
        if status.st_mode & stat.S_ISUID and status.st_uid == 0:
            return True
        return bool(os.getxattr(program, _CAPABILITIES))
    except OSError:
        return False


def selinux_enforces(root: Path) -> bool:
    """Whether SELinux is on and refuses what its policy does not allow."""
    return _text(root / "sys/fs/selinux/enforce").strip() == "1"


def cgroups(root: Path, user: User | None) -> Cgroups | None:
    """Those of an engine of the system, or of the engine that a user runs. None is unknown."""
    base = root / "sys/fs/cgroup"
    if not (base / "cgroup.controllers").exists():
        if not (root / "proc/cgroups").exists():
            return None
        # Version 1 delegates nothing to users.
        return Cgroups(1, frozenset() if user else _of_version_1(_text(root / "proc/cgroups")))
    if user is not None:
        base = base / f"user.slice/user-{user.uid}.slice/user@{user.uid}.service"
        if not base.exists():  # no systemd of this user: what we were given ourselves is unknown
            return None
    return Cgroups(2, frozenset(_text(base / "cgroup.controllers").split()))


def _of_version_1(table: str) -> frozenset[str]:
    rows = [line.split() for line in table.splitlines() if not line.startswith("#")]
    names = {row[0] for row in rows if len(row) == 4 and row[1] != "0" and row[3] == "1"}
    return frozenset("io" if name == "blkio" else name for name in names)


def _services(nsswitch: str) -> set[str]:
    """The databases that are not, or not only, in files."""
    lines = (line.partition("#")[0].partition(":") for line in nsswitch.splitlines())
    return {name.strip() for name, _, services in lines if services.split() not in ([], ["files"])}


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
