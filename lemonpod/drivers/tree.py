"""The processes of an engine, however they detached themselves, and the ports they listen on.

A process belongs to an engine when it is a descendant of its main process, lives in the session that was
made for it, or carries its marker in the environment. What looks at all processes blocks: it is called in
threads.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import psutil

from lemonpod.launch.environment import MARKER

_UNREADABLE: Final = MappingProxyType({"": ""})
"""Of another user's process: none that we could have started, or end."""

Find: TypeAlias = Callable[[], list[psutil.Process]]

POLL_INTERVAL: Final = 0.02
KILL_TIMEOUT: Final = 5.0
"""Nothing outlives a KILL this long but a process inside the kernel, in a driver call that does not end."""
MAX_LOOKS: Final = 10
"""On a machine where processes come and go all the time."""
CLOCK_SLACK: Final = 2.0
"""Creation times are told from the boot time, which moves when the clock is set."""

_WILDCARDS: Final = ("0.0.0.0", "::", "")  # noqa: S104  compared with, never bound
_MAPPED: Final = "::ffff:"
_LISTENING: Final = "0A"
"""As Documentation/networking/proc_net_tcp.rst has it."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A TCP socket that takes connections, and who holds it as far as we may know."""

    host: str
    port: int
    pid: int | None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def accepts(self, host: str) -> int:
        """How closely this socket matches a connection to `host`; 0 where it does not."""
        if self.host.removeprefix(_MAPPED) == host:
            return 3
        if self.host in _WILDCARDS:
            return 2 if (":" in self.host) == (":" in host) else 1
        return 0


def created(pid: int) -> float | None:
    """The creation time of a process, which with its pid names it for ever; None where it is gone."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return None


def members(
    marker: Callable[[str], bool], *, roots: Collection[int] = (), born_after: float = 0.0
) -> list[psutil.Process]:
    """The living processes with a fitting marker, the sessions and the descendants of `roots`.

    A root must not have been reaped: while it is a zombie no stranger can get its pid, nor its session id.
    """
    # Looking takes time: who dies meanwhile may have had a child first, which the list does not hold.
    # Only a look during which nothing changed tells that there is nobody.
    unsettled_before = {pid for pid in roots if not _is_alive(pid)}
    for _ in range(MAX_LOOKS):
        found, unsettled = _look(marker, roots, born_after)
        if found or unsettled <= unsettled_before:
            return found
        unsettled_before = unsettled
    return []


def _look(
    marker: Callable[[str], bool], roots: Collection[int], born_after: float
) -> tuple[list[psutil.Process], set[int]]:
    """The members among the processes of this moment, and of all these whom it caught in a change."""
    unsettled: set[int] = set()
    young: dict[int, psutil.Process] = {}
    parents: dict[int, int] = {}
    belongs = set(roots)
    for pid in psutil.pids():
        try:
            process = psutil.Process(pid)
            if process.create_time() < born_after - CLOCK_SLACK:
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
                unsettled.add(pid)
                continue
            young[pid] = process
            parents[pid] = process.ppid()
            environ = _environ(process)
            if environ == {}:  # on its way from one program to the next, or started with none
                unsettled.add(pid)
            if os.getsid(pid) in roots or marker(environ.get(MARKER, "")):
                belongs.add(pid)
        except (psutil.NoSuchProcess, ProcessLookupError):
            unsettled.add(pid)
        except (psutil.AccessDenied, PermissionError):
            continue
    while heirs := {pid for pid, parent in parents.items() if parent in belongs} - belongs:
        belongs |= heirs
    found = [process for pid, process in young.items() if pid in belongs]
    living = [process for process in found if lives(process)]
    died = {process.pid for process in found} - {process.pid for process in living}
    return living, unsettled | died


def _environ(process: psutil.Process) -> Mapping[str, str]:
    try:
        return process.environ()
    except (psutil.AccessDenied, PermissionError):
        return _UNREADABLE


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def lives(process: psutil.Process) -> bool:
    """The very process is still there, and no zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def describe(process: psutil.Process) -> str:
    """As `sleep (pid 12)`; with its state where that tells why a signal does not help."""
    name, state = "?", ""
    with suppress(psutil.Error):
        name = process.name()
        if process.status() == psutil.STATUS_DISK_SLEEP:
            state = ", in an uninterruptible wait"
    return f"{name} (pid {process.pid}{state})"


def usage(processes: Iterable[psutil.Process]) -> tuple[float, int, int]:
    """CPU seconds so far, resident bytes, and the number of processes."""
    seconds, resident, count = 0.0, 0, 0
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            resident += process.memory_info().rss
            seconds += times.user + times.system
            count += 1
    return seconds, resident, count


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Signal each; psutil makes sure that no pid went to another process meanwhile."""
    for process in processes:
        with suppress(psutil.Error, OSError):
            process.send_signal(number)


async def end(find: Find, kill_at: Callable[[], float]) -> list[psutil.Process]:
    """TERM all that `find` finds, KILL them from `kill_at` on (monotonic; it may move); who is left.

    Looks again until nobody is found: a process may fork faster than it is signalled.
    """
    warned: set[psutil.Process] = set()
    left = await asyncio.to_thread(find)
    while left and time.monotonic() < kill_at():
        send((process for process in left if process not in warned), signal.SIGTERM)
        warned.update(left)
        await asyncio.sleep(POLL_INTERVAL)
        left = [process for process in left if lives(process)] or await asyncio.to_thread(find)
    give_up_at = time.monotonic() + KILL_TIMEOUT
    while left and time.monotonic() < give_up_at:
        send(left, signal.SIGKILL)
        await asyncio.sleep(POLL_INTERVAL)
        left = [process for process in left if lives(process)] or await asyncio.to_thread(find)
    return left


def listeners_of(processes: Iterable[psutil.Process]) -> list[Listener]:
    """What the processes listen on. Raises psutil.AccessDenied where one does not let itself be asked."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            found += [
                Listener(connection.laddr.ip, connection.laddr.port, process.pid)
                for connection in process.net_connections(kind="tcp")
                if connection.status == psutil.CONN_LISTEN and connection.laddr
            ]
    return found


def listeners_beside(pid: int) -> list[Listener]:
    """All that listens in the network namespace of a process. Raises OSError where we may not look there."""
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as lines:
            for _, local, _, state, *_ in map(str.split, lines):
                if state == _LISTENING:
                    host, port = local.split(":")
                    found.append(Listener(_address(host), int(port, 16), None))
    return found


def _address(words: str) -> str:
    """As the kernel writes it: in words of four bytes, each in the order of the processor."""
    parts = (int(words[at : at + 8], 16) for at in range(0, len(words), 8))
    packed = b"".join(part.to_bytes(4, sys.byteorder) for part in parts)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def listeners_on(host: str, port: int) -> list[Listener]:
    """The sockets of this machine that a connection to this place may reach: the closest matches."""
    found = [
        Listener(connection.laddr.ip, connection.laddr.port, connection.pid)
        for connection in psutil.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
    ]
    closest = max((listener.accepts(host) for listener in found), default=0)
    return [listener for listener in found if closest and listener.accepts(host) == closest]
