"""How busy this machine is now, from the files under a root; None is unknown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_IDLE = (3, 4)
"""Where `idle` and `iowait` stand in the line `cpu` of /proc/stat (proc_stat(5))."""
_COUNTED = 8
"""`guest` and `guest_nice`, which follow, are part of `user` and `nice`."""

_LONGEST = 20
"""Digits of a number of the kernel."""


class CpuTime(NamedTuple):
    """Of all processors since the machine started, in ticks."""

    idle: int
    total: int


def cpu_time(root: Path = Path("/")) -> CpuTime | None:
    """What /proc/stat says now."""
    match = re.match(r"cpu +([\d ]+)", _text(root / "proc/stat"))
    if match is None:
        return None
    ticks = [int(number) for number in match[1].split()][:_COUNTED]
    if len(ticks) <= max(_IDLE):
        return None
    return CpuTime(sum(ticks[place] for place in _IDLE), sum(ticks))


def cpu_percent(before: CpuTime | None, after: CpuTime | None) -> float | None:
    """How much of the time in between the processors worked."""
    if before is None or after is None or after.total <= before.total:
        return None
    idle = (after.idle - before.idle) / (after.total - before.total)
    return round(100 * min(max(1 - idle, 0.0), 1.0), 1)


def memory_used(root: Path = Path("/")) -> int | None:
    """Bytes that programs could not have."""
    text = _text(root / "proc/meminfo")
    total, available = (
        re.search(rf"^{name}: +(\d+) kB$", text, re.MULTILINE) for name in ("MemTotal", "MemAvailable")
    )
    return None if total is None or available is None else (int(total[1]) - int(available[1])) * 1024


class GpuUse(NamedTuple):
    """Of the GPU that works most."""

    percent: float | None = None
    memory_bytes: int | None = None
    """Of its own memory, and of the machine's where it is part of the processor."""


def gpu_use(root: Path = Path("/")) -> GpuUse:
    """What the kernel's drivers write down, as amdgpu does; NVIDIA's does not."""
    cards = (path for path in sorted((root / "sys/class/drm").glob("card*")) if "-" not in path.name)
    uses = [_use_of(card / "device") for card in cards]
    known = [use for use in uses if use != GpuUse()]
    return max(known, key=lambda use: use.percent or 0.0, default=GpuUse())


def _use_of(device: Path) -> GpuUse:
    busy, own, shared = (
        _number(device / name) for name in ("gpu_busy_percent", "mem_info_vram_used", "mem_info_gtt_used")
    )
    is_card = (device / "board_info").exists()  # which a GPU within a processor has not
    memory = own if own is None or is_card else own + (shared or 0)
    return GpuUse(busy, memory)


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < _LONGEST else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
