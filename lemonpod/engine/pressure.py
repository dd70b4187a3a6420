"""Which model makes room when memory gets scarce. Pure.

One at a time: as long as memory is about to fall nobody else has to. Who is at work or pinned never has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.engine.api import InstanceState
from lemonpod.engine.stay import Stay, Step

Reading: TypeAlias = Mapping[Accelerator, float]
"""How full the memory behind an accelerator is, from 0 to 1. What is unknown is missing."""

_FALLING: Final = frozenset({InstanceState.DOWNSIZING, InstanceState.STOPPING})
_UNKNOWN_LOAD: Final = 1.0
"""Seconds, as Lemonade takes it."""
_SHORTEST_LOAD: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """An engine that holds memory. Times are seconds of one monotonic clock."""

    model: str
    stay: Stay
    state: InstanceState
    accelerator: Accelerator
    in_flight: int
    used: float
    loaded_in: float | None
    """How long it took to be ready; unknown of one that was found running."""
    can_shrink: bool
    """It can be asked to give memory back, and was not since it was used last."""

    @property
    def may_leave(self) -> bool:
        """Its model is one that makes room."""
        return self.stay.auto_evict and not self.stay.pinned

    @property
    def is_idle(self) -> bool:
        return self.state is InstanceState.READY and not self.in_flight

    def score(self, now: float) -> float:
        """How well it can be done without: long unused, soon loaded again, and not said to matter."""
        # One after the other: the product of small numbers may be nothing.
        load = _UNKNOWN_LOAD if self.loaded_in is None else max(self.loaded_in, _SHORTEST_LOAD)
        return (now - self.used) / load / self.stay.evict_weight_factor


class Relief(NamedTuple):
    """What is to be done, and the share that made it necessary."""

    model: str
    step: Step
    share: float


def is_falling(holders: Iterable[Holder]) -> bool:
    """Whether memory is being given back already."""
    return any(holder.state in _FALLING for holder in holders)


def relief(
    holders: Iterable[Holder], reading: Reading, *, threshold: float, taken: float, now: float
) -> Relief | None:
    """Who makes room next, and how; None where nobody has to, or can.

    The reading was `taken` then: it counts for those alone that nobody has used since.
    """
    pressed = [
        holder
        for holder in holders
        if holder.may_leave
        and holder.is_idle
        and holder.used <= taken
        and reading.get(holder.accelerator, -1.0) >= threshold
    ]
    chosen = max(pressed, key=lambda holder: holder.score(now), default=None)
    if chosen is None:
        return None
    step = Step.DOWNSIZE if chosen.can_shrink else Step.UNLOAD
    return Relief(chosen.model, step, reading[chosen.accelerator])
