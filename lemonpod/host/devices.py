"""Device nodes, and who may open them."""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.host.user import User, group_name, user_name

_ACL: Final = "system.posix_acl_access"
_ACL_VERSION: Final = 2
# Tags of entries, from include/uapi/linux/posix_acl.h; owner, group and others are in the mode as well.
_ACL_USER: Final = 0x02
_ACL_GROUP_OWNER: Final = 0x04
_ACL_GROUP: Final = 0x08
_READ_WRITE: Final = 0o6
_RENDER: Final = "renderD"


@dataclass(frozen=True, slots=True)
class Grant:
    """One entry of an access list: a user or a group, and its bits; None is the file's own group."""

    of_user: bool
    id: int | None
    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A device node and who it is open to. Where there are grants, the mode's group bits limit them."""

    path: str
    mode: int
    uid: int
    gid: int
    grants: tuple[Grant, ...] = ()

    def may_open(self, user: User) -> bool:
        """Whether `user` may read and write it, decided as the kernel does (acl(5))."""
        if user.is_root:
            return True
        if user.uid == self.uid:
            return _open(self.mode >> 6)
        mask = self.mode >> 3
        own = [grant for grant in self.grants if grant.of_user and grant.id == user.uid]
        if own:
            return _open(own[0].bits & mask)
        groups = {user.gid, *user.groups}
        if not self.grants:
            return _open(self.mode >> 3 if self.gid in groups else self.mode)
        of_groups = [
            grant.bits & mask
            for grant in self.grants
            if not grant.of_user and (self.gid if grant.id is None else grant.id) in groups
        ]
        return any(map(_open, of_groups)) if of_groups else _open(self.mode)

    @property
    def group(self) -> str | None:
        """The group whose members may open it, None where its members may not or it is root's."""
        return group_name(self.gid) if _open(self.mode >> 3) and self.gid != 0 else None

    def __str__(self) -> str:
        return f"{self.path} ({self.mode & 0o777:04o} {user_name(self.uid)}:{group_name(self.gid)})"


def device_nodes(path: str, root: Path) -> tuple[DeviceNode, ...]:
    """The nodes that `--device PATH` hands over: itself, or all in a folder. Empty: it is no device.

    Raises OSError; FileNotFoundError where there is nothing.
    """
    place = root / path.lstrip("/")
    status = place.stat()
    if stat.S_ISDIR(status.st_mode):
        with os.scandir(place) as entries:
            names = sorted(entry.name for entry in entries if not entry.is_dir())
        below = (device_node(f"{path.rstrip('/')}/{name}", place / name) for name in names)
        return tuple(node for node in below if node)
    node = device_node(path, place)
    return (node,) if node else ()


def device_node(path: str, place: Path) -> DeviceNode | None:
    """The node at `place`, which is called `path`, or None for anything else. Raises OSError."""
    try:
        status = place.stat()
    except FileNotFoundError:  # gone meanwhile, or a link to nowhere
        return None
    if not (stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)):
        return None
    try:
        grants = parse_acl(os.getxattr(place, _ACL))
    except (OSError, AttributeError):  # none set, or a system without
        grants = ()
    return DeviceNode(
        path=path, mode=stat.S_IMODE(status.st_mode), uid=status.st_uid, gid=status.st_gid, grants=grants
    )


def needed(nodes: tuple[DeviceNode, ...]) -> tuple[DeviceNode, ...]:
    """Those of a folder that computing needs: its render nodes, where it has such beside those of screens."""
    render = tuple(node for node in nodes if Path(node.path).name.startswith(_RENDER))
    return render or nodes


def parse_acl(raw: bytes) -> tuple[Grant, ...]:
    """The entries of `system.posix_acl_access` that say more than the mode does."""
    if len(raw) < 4 or struct.unpack_from("<I", raw)[0] != _ACL_VERSION or len(raw) % 8 != 4:
        return ()
    found = []
    for tag, bits, number in struct.iter_unpack("<HHI", raw[4:]):
        if tag in {_ACL_USER, _ACL_GROUP}:
            found.append(Grant(tag == _ACL_USER, number, bits))
        elif tag == _ACL_GROUP_OWNER:
            found.append(Grant(False, None, bits))
    return tuple(found)


def _open(bits: int) -> bool:
    return bits & _READ_WRITE == _READ_WRITE
