"""What came of the starts of a model's engine."""

from __future__ import annotations

from dataclasses import dataclass

from lemonpod.engine.instance import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Counted since the server's start."""

    ready: int = 0
    failed: int = 0
    """Before they were ready."""
    crashed: int = 0
    """Or ended by the watchdog, once they had been ready."""

    def counting(self, instance: Instance) -> Starts:
        """These and one more, which may still be alive."""
        was_ready, failed = instance.ready_at is not None, instance.failure is not None
        return Starts(
            ready=self.ready + was_ready,
            failed=self.failed + (failed and not was_ready),
            crashed=self.crashed + (failed and was_ready),
        )
