"""What a proxy's processes cost: processor time and memory, without the engines that it runs."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.bench.relay.engine import MODULE

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_RESET_PEAK: Final = "5"  # proc_pid_clear_refs(5): VmHWM starts anew from what is resident now


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes, summed over the processes."""

    resident: int
    proportional: int
    """Pages that several processes share count in parts (PSS)."""


class ProcessTree:
    """A proxy's process and its descendants."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)

    def cpu_seconds(self) -> float:
        """User and system time of all threads, those that have ended too, in nanosecond steps."""
        return sum(_cpu_clock(pid) for pid in self._pids())

    def memory(self) -> Memory:
        """What is in memory now."""
        rollups = [_fields(Path(f"/proc/{pid}/smaps_rollup")) for pid in self._pids()]
        return Memory(sum(r.get("Rss", 0) for r in rollups), sum(r.get("Pss", 0) for r in rollups))

    def reset_peak(self) -> None:
        """Let `peak` begin anew."""
        for pid in self._pids():
            Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)

    def peak(self) -> int:
        """The sum of what each process had resident at most since `reset_peak`, in bytes."""
        return sum(_fields(Path(f"/proc/{pid}/status")).get("VmHWM", 0) for pid in self._pids())

    def _pids(self) -> Iterator[int]:
        todo = [self._root]
        while todo:
            process = todo.pop()
            with suppress(psutil.NoSuchProcess):
                if MODULE in process.cmdline():
                    continue  # an engine, and all that is below it
                yield process.pid
                todo += process.children()


def _cpu_clock(pid: int) -> float:
    clock = ctypes.c_int()
    if error := _LIBC.clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise ProcessLookupError(error, os.strerror(error))
    return time.clock_gettime(clock.value)


def _fields(path: Path) -> dict[str, int]:
    """The lines of a file in /proc that are sizes, in bytes."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) << 10 for words in lines if words[2:] == ["kB"]}
