"""What idleness leads to, by the options of a model."""

from __future__ import annotations

import pytest

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.engine.stay import Coming, Stay, Step, next_step, stay_of
from lemonpod.errors import LaunchError

ON = Stay(auto_evict=True)


def coming(stay: Stay, idle: float, *, can: bool = True, is_downsized: bool = False) -> Coming | None:
    return next_step(stay, idle=idle, can_downsize=can, is_downsized=is_downsized)


def test_memory_first_then_the_place() -> None:
    assert coming(ON, 10.0) == (Step.DOWNSIZE, 50.0)
    assert coming(ON, 61.0) == (Step.DOWNSIZE, 0.0)
    assert coming(ON, 61.0, is_downsized=True) == (Step.UNLOAD, 239.0)
    assert coming(ON, 10.0, can=False) == (Step.UNLOAD, 290.0)


def test_nothing_happens_to_who_is_pinned_or_where_it_is_switched_off() -> None:
    assert coming(Stay(), 9999.0) is None
    assert coming(Stay(auto_evict=True, pinned=True), 9999.0) is None


def test_zero_is_never() -> None:
    assert coming(stay_of({"auto_evict": True, "evict_idle_timeout": 0}), 99.0, is_downsized=True) is None
    assert coming(stay_of({"auto_evict": True, "downsize_idle_timeout": 0}), 0.0) == (Step.UNLOAD, 300.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pinned", "yes"),
        ("auto_evict", 1),
        ("evict_idle_timeout", "5"),
        ("downsize_idle_timeout", -2),
        ("evict_idle_timeout", 10**400),
    ],
)
def test_a_wrong_value_is_named(name: str, value: JsonValue) -> None:
    with pytest.raises(LaunchError, match=f"option '{name}' must be "):
        stay_of({name: value})


@pytest.mark.parametrize("value", [0, -1, True, "2", float("inf"), float("nan"), 10**400])
def test_a_weight_is_above_zero(value: JsonValue) -> None:
    assert stay_of({"evict_weight_factor": 0.5}).evict_weight_factor == 0.5
    with pytest.raises(LaunchError, match="option 'evict_weight_factor' must be a number above zero"):
        stay_of({"evict_weight_factor": value})


def test_only_what_was_given_is_changed() -> None:
    stay = Stay(pinned=True, auto_evict=True)
    assert stay.changed_by({"ctx_size": 1, "evict_idle_timeout": 5.0}, {"evict_idle_timeout": 5.0}) == Stay(
        pinned=True, auto_evict=True, evict_idle_timeout=5.0
    )
    assert stay.changed_by({}, {"pinned": None}).pinned is False
