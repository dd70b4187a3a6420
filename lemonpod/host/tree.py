"""A machine's files as detection sees them: those of this machine, below a folder, or in a document."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:  # a machine without GPUs is looked at without a device node
    from lemonpod.host.devices import DeviceNode
    from lemonpod.host.user import User

MAX_BYTES: Final = 4 << 20
"""No file read here is longer; /proc/cpuinfo of a large machine is the longest."""

_MAX_LINKS: Final = 40  # as the kernel has it, path_resolution(7)


class Tree(Protocol):
    """Answers for absolute paths, following links, and never raises: what is not there is an answer too."""

    @property
    def machine(self) -> str | None:
        """The instruction set, where somebody says it who is no file."""

    @property
    def user(self) -> User:
        """Whose access `may_open` is about."""

    def link(self, path: str) -> str | None:
        """The target of the link at `path`, in whose folders are none; None for all that is no link."""

    def read(self, path: str) -> str | None:
        """The text of a file, cut where no fact is any more; None where it cannot be read."""

    def names(self, path: str) -> tuple[str, ...]:
        """What a folder holds, in order; nothing where it cannot be listed."""

    def real(self, path: str) -> str | None:
        """The path without links; None where it leads nowhere."""

    def node(self, path: str) -> DeviceNode | None:
        """The device node at `path`, and to whom it is open."""

    def may_open(self, node: DeviceNode) -> bool:
        """Whether the user may read and write a node of this tree."""

    def group(self, number: int) -> str:
        """What a group is called; the number where nobody says."""


def resolve(path: str, link: Callable[[str], str | None]) -> str | None:
    """`path` without links, none of which leads out of the tree; None for links that go in circles.

    `link` gives the target of a link, and None for all that is none.
    """
    left = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    place: list[str] = []
    followed = 0
    while left:
        part = left.pop()
        if part == "..":
            if place:
                place.pop()
            continue
        target = link("/".join(("", *place, part)))
        if target is None:
            place.append(part)
            continue
        followed += 1
        if followed > _MAX_LINKS:
            return None
        if target.startswith("/"):
            place.clear()
        left += [part for part in reversed(target.split("/")) if part not in ("", ".")]
    return "/" + "/".join(place)


def text_of(data: bytes) -> str:
    """What the kernel and distributions write is UTF-8; what is not, is no reason to stop."""
    return data[:MAX_BYTES].decode("utf-8", "replace").replace("\r\n", "\n")


class Folder:
    """The files below a folder, as those of a container or of another machine; `/` is this machine."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = str(root).rstrip("/")
        self.machine = None if self._root else platform.machine() or None

    @property
    def user(self) -> User:
        from lemonpod.host.user import this_user

        return this_user()

    def link(self, path: str) -> str | None:
        try:
            return os.readlink(self._root + path)
        except (OSError, ValueError):
            return None

    def read(self, path: str) -> str | None:
        place = self._place(path)
        if place is None:
            return None
        try:
            # A pipe or a device that got into the tree must neither hold this up nor be read.
            descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            with open(descriptor, "rb", buffering=0) as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return None
                return text_of(_read_all(file.read))
        except (OSError, ValueError):
            return None

    def names(self, path: str) -> tuple[str, ...]:
        place = self._place(path)
        try:
            return tuple(sorted(os.listdir(place))) if place is not None else ()
        except (OSError, ValueError):
            return ()

    def real(self, path: str) -> str | None:
        real = resolve(path, self.link)
        return real if real is not None and os.path.lexists(self._root + real) else None

    def node(self, path: str) -> DeviceNode | None:
        from lemonpod.host.devices import device_node

        place = self._place(path)
        try:
            return device_node(path, Path(place)) if place is not None else None
        except (OSError, ValueError):
            return None

    def may_open(self, node: DeviceNode) -> bool:
        """As the kernel says: it knows user namespaces, in which root is not everybody's root."""
        place = self._place(node.path)
        return place is not None and os.access(place, os.R_OK | os.W_OK, effective_ids=True)

    def group(self, number: int) -> str:
        from lemonpod.host.user import group_name

        return group_name(number)

    def _place(self, path: str) -> str | None:
        if not self._root:
            return path
        real = resolve(path, self.link)
        return None if real is None else self._root + real


def _read_all(read: Callable[[int], bytes | None]) -> bytes:
    """Files of /proc come in pieces of a page."""
    parts: list[bytes] = []
    size = 0
    while size < MAX_BYTES and (part := read(MAX_BYTES - size)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)
