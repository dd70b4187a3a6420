"""How long a crashed engine must rest before its next start. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lemonpod.engine.settings import EngineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CoolDown:
    """Crashes in a row of one model under one plan. Times are those of the caller's monotonic clock."""

    digest: str
    crashes: int
    until: float

    def rest(self, digest: str, now: float) -> float | None:
        """The seconds still to wait; None where the plan has changed or the time is over."""
        if digest != self.digest or now >= self.until:
            return None
        return self.until - now


def after_crash(
    previous: CoolDown | None, *, digest: str, now: float, ready_for: float, settings: EngineSettings
) -> CoolDown:
    """The cool-down after a crash of an engine that had been ready for `ready_for` seconds."""
    in_a_row = previous is not None and previous.digest == digest and ready_for < settings.stable_after
    crashes = previous.crashes + 1 if previous is not None and in_a_row else 1
    # 2.0 ** 1024 overflows; no configured maximum needs more doublings than this.
    rest = min(settings.cooldown_first * 2.0 ** min(crashes - 1, 64), settings.cooldown_max)
    return CoolDown(digest=digest, crashes=crashes, until=now + rest)
