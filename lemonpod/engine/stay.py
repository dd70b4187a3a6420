"""How long an engine stays that nobody uses, by the options of its model. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import LaunchError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """The fields are called what the options are. Times are seconds of idleness; 0 stands for never."""

    pinned: bool = False
    """It makes room for no other, and stays however long it idles."""
    auto_evict: bool = False
    """Whether idleness has consequences at all."""
    downsize_idle_timeout: float = 60.0
    evict_idle_timeout: float = 300.0
    evict_weight_factor: float = 1.0
    """How much it matters that it stays when memory is scarce: with twice as much it idles twice as long."""

    def changed_by(self, options: Mapping[str, JsonValue], given: Mapping[str, JsonValue]) -> Stay:
        """With the values that `options` have for the names in `given`."""
        now = stay_of(options)
        return replace(self, **{name: getattr(now, name) for name in STAY_OPTIONS & given.keys()})


STAY_OPTIONS: Final = frozenset(field.name for field in fields(Stay))
_WEIGHT: Final = "evict_weight_factor"
_MOST: Final = sys.float_info.max


class Step(Enum):
    """What idleness leads to."""

    DOWNSIZE = auto()
    UNLOAD = auto()


class Coming(NamedTuple):
    """The next step, and the seconds until then."""

    step: Step
    delay: float


def stay_of(options: Mapping[str, JsonValue]) -> Stay:
    """What a model's effective options say; raises LaunchError naming the option."""
    given: dict[str, Any] = {}
    for name in STAY_OPTIONS & options.keys():
        value, is_switch = options[name], isinstance(getattr(Stay(), name), bool)
        if is_switch and not isinstance(value, bool):
            raise LaunchError(f"option '{name}' must be true or false, not {value!r}")
        if name == _WEIGHT and not (_is_amount(value) and value):
            raise LaunchError(f"option '{name}' must be a number above zero, not {value!r}")
        if not is_switch and not _is_amount(value):
            raise LaunchError(f"option '{name}' must be a number of seconds, not {value!r}")
        given[name] = value
    return Stay(**given)


def next_step(stay: Stay, *, idle: float, can_downsize: bool, is_downsized: bool) -> Coming | None:
    """What comes next; None where idleness changes nothing any more."""
    if not stay.auto_evict or stay.pinned:
        return None
    steps: list[tuple[float, Step]] = []
    if can_downsize and not is_downsized and stay.downsize_idle_timeout:
        steps.append((stay.downsize_idle_timeout, Step.DOWNSIZE))
    if stay.evict_idle_timeout:
        steps.append((stay.evict_idle_timeout, Step.UNLOAD))
    if not steps:
        return None
    due, step = min(steps, key=lambda pair: pair[0])
    return Coming(step, max(due - idle, 0.0))


def _is_amount(value: JsonValue) -> bool:
    # Whole numbers have no end, unlike those that they are calculated with.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST
