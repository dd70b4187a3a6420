"""Where an engine of the lab lives: a mount namespace of its own.

What it mounts is seen by nobody else and is gone with its last process. And whatever lives there, or in a
container made there, has the engine's folder among its mounts: so every process of an engine is found again,
also by a later run, and nothing else is ever ended.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.lab.errors import LabError
from tests.lab.waiting import wait_until

# $1: the engine's folder; $2: another root for it, or nothing; $3: the number of its user. /run and /dev/shm
# hold locks and sockets by well-known names, which two engines of one machine would share; docker 20 writes a
# key into /etc.
_SETUP: Final = """
set -eu
folder=$1 root=$2 user=$3
if [ -n "$root" ]; then
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    for shared in /sys /dev /tmp "$folder"; do
        mkdir -p "$root$shared"
        mount --rbind "$shared" "$root$shared"
    done
    cd "$root"
    pivot_root . mnt
    umount -l /mnt
fi
mount --bind "$folder" "$folder"
mkdir -p "$folder/etc" "$folder/etc.work"
mount -t overlay -o "lowerdir=/etc,upperdir=$folder/etc,workdir=$folder/etc.work" overlay /etc
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -p /run/lock /run/cdi /run/user
install -d -m 700 -o "$user" "/run/user/$user"
cp "$folder/devices.json" /run/cdi/
echo $$ > "$folder/holder.new"
mv "$folder/holder.new" "$folder/holder.pid"
exec sleep infinity
"""
PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the engines' own programs are, not those that the lab puts in front of them."""

_CONTAINER_ID: Final = re.compile(r"[0-9a-f]{64}")
_CGROUPS: Final = Path("/sys/fs/cgroup")


class Space:
    """A mount namespace in which `folder` is a mount; `root` is its root folder, if not the machine's.

    `user` finds its runtime folder there.
    """

    def __init__(self, folder: Path, *, root: Path | None = None, user: int = 0) -> None:
        self.folder = folder
        self.root = root
        self._user = user
        self._children: list[subprocess.Popen[bytes]] = []

    def open(self) -> None:
        """Make the namespace; nothing happens where an earlier run's is still there."""
        if self._holder() is not None:
            return
        words = (str(self.folder), str(self.root or ""), str(self._user))
        log = self.folder / "space.log"
        child = self._spawn(("unshare", "--mount", "sh", "-c", _SETUP, "sh", *words), log)
        wait_until(lambda: self._holder() is not None or child.poll() is not None, f"space {self.folder}")
        if child.poll() is not None:
            raise LabError(f"no mount namespace for {self.folder}: {log.read_text()}")

    def argv(self, *command: str) -> tuple[str, ...]:
        """What runs `command` inside."""
        return ("nsenter", "--mount", f"--target={self._holder()}", "--", *command)

    def start(self, argv: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """A program inside, that is ended with the space at the latest."""
        return self._spawn(self.argv(*argv), log)

    def close(self) -> None:
        """End all that lives there."""
        end_all_in(self.folder)
        for child in self._children:
            child.wait()
        self._children.clear()

    def _holder(self) -> int | None:
        """The process that keeps the namespace."""
        try:
            pid = int((self.folder / "holder.pid").read_text())
        except FileNotFoundError:
            return None
        return pid if _lives_in(pid, self.folder) else None

    def _spawn(self, argv: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={"PATH": PATH, "LANG": "C.UTF-8"},
                start_new_session=True,
            )
        self._children.append(child)
        return child


def end_all_in(folder: Path) -> None:
    """Kill every process in a namespace that has `folder` mounted, and remove its containers' cgroups."""
    containers: set[str] = set()

    def none_left() -> bool:
        pids = processes_in(folder)
        containers.update(_containers_of(pids))
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not pids

    wait_until(none_left, f"the end of all in {folder}")
    _remove_cgroups(containers)


def processes_in(folder: Path) -> list[int]:
    """All living processes in a mount namespace that has `folder` mounted, or layers from it."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _lives_in(int(name), folder)]


def _lives_in(pid: int, folder: Path) -> bool:
    try:
        if os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
            return False
        mounts = Path(f"/proc/{pid}/mountinfo").read_text(errors="replace")
    except OSError:
        return False  # it has ended meanwhile
    return re.search(rf"{re.escape(str(folder))}(?=[/ :,])", mounts) is not None


def _containers_of(pids: Sequence[int]) -> set[str]:
    found: set[str] = set()
    for pid in pids:
        try:
            found.update(_CONTAINER_ID.findall(Path(f"/proc/{pid}/cgroup").read_text()))
        except OSError:
            continue
    return found


def _remove_cgroups(containers: set[str]) -> None:
    if not containers:
        return
    for folder, _, _ in os.walk(_CGROUPS, topdown=False):
        if not containers.isdisjoint(_CONTAINER_ID.findall(folder)):
            try:
                os.rmdir(folder)
            except OSError:
                continue  # the kernel counts its last process still; an empty cgroup does no harm
