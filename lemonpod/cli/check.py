"""One thing that `lemonpod doctor` looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was found, and, where that is bad, what to do: a line to paste where there is one."""

    name: str
    ok: bool
    found: str
    fix: str | None = None
