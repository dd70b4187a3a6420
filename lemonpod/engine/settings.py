"""What an operator can set about engines; all times in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEMORY_THRESHOLD: Final = 0.9
"""How full memory is when it is scarce, as Lemonade has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    stop_grace: float = 5.0
    """From TERM to KILL, as Lemonade does."""
    stop_command_timeout: float = 15.0
    pull_timeout: float = 7200.0
    """For an image, from the first byte to the last."""
    drain_timeout: float = 5.0
    """How long an unload waits for requests in flight before it cuts them."""
    shutdown_timeout: float = 10.0
    """Everything together when the server ends."""
    abandon_grace: float = 0.5
    """How long a load goes on that nobody waits for any more: a client's quick retry finds it."""
    swap_wait: float = 300.0
    """The longest that a request waits for a place that other models hold."""
    swap_turn: float = 30.0
    """How long an engine in demand keeps its place, from ready on, while other models want it."""
    swap_linger: float = 0.25
    """How long within its turn an engine must have been idle to lose its place: a client that asks again at
    once finds it still there."""
    max_queue: int = 256
    """Requests that may wait for one model; more are turned away."""
    cooldown_first: float = 2.0
    cooldown_max: float = 60.0
    """A crashed model's next start is put off by 2, 4, 8 … seconds."""
    stable_after: float = 60.0
    """An engine that was ready this long before it crashed starts counting anew."""
    watchdog: bool = True
    watchdog_grace: float = 90.0
    """After ready, before the first check counts."""
    watchdog_interval: float = 5.0
    watchdog_probe_timeout: float = 2.0
    watchdog_max_failures: int = 3
    first_port: int = 8001
    last_port: int = 8999
    """Below the kernel's ephemeral range, so that no outgoing connection takes a leased port."""
