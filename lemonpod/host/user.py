"""Who a process is to the kernel, and what users and groups are called here."""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Whose access is decided; `groups` are the supplementary ones."""

    uid: int
    gid: int
    groups: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        return user_name(self.uid)

    @property
    def is_root(self) -> bool:
        return self.uid == 0

    def without_groups(self) -> User:
        """As a rootless engine runs its containers, which keeps no supplementary group by itself."""
        return replace(self, groups=frozenset())


def this_user() -> User:
    """The user of this process."""
    return User(uid=os.geteuid(), gid=os.getegid(), groups=frozenset(os.getgroups()))


def user_name(uid: int) -> str:
    """What a user is called; the number where nobody says."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """What a group is called; the number where nobody says."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
