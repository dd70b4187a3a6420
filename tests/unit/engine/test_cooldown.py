from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lemonpod.engine.cooldown import CoolDown, after_crash
from lemonpod.engine.settings import EngineSettings

SETTINGS = EngineSettings()


def crash(
    previous: CoolDown | None, *, digest: str = "a", now: float = 0.0, ready_for: float = 0.0
) -> CoolDown:
    return after_crash(previous, digest=digest, now=now, ready_for=ready_for, settings=SETTINGS)


def test_another_plan_need_not_rest() -> None:
    cooldown = crash(None, now=10.0)
    assert cooldown.rest("a", 10.5) == 1.5
    assert cooldown.rest("b", 10.5) is None
    assert cooldown.rest("a", 12.0) is None


def test_another_plan_counts_anew() -> None:
    first = crash(crash(None))
    assert first.crashes == 2
    assert crash(first, digest="b").crashes == 1


@given(st.lists(st.floats(min_value=0, max_value=200), max_size=2000))
def test_the_rest_never_exceeds_its_maximum(ready: list[float]) -> None:
    cooldown = None
    for ready_for in ready:
        cooldown = crash(cooldown, ready_for=ready_for)
        rest = cooldown.rest("a", 0.0)
        assert rest is not None
        assert SETTINGS.cooldown_first <= rest <= SETTINGS.cooldown_max
        assert (cooldown.crashes == 1) or ready_for < SETTINGS.stable_after


def test_a_model_that_crashes_for_ever_does_not_overflow() -> None:
    cooldown = CoolDown(digest="a", crashes=100_000, until=0.0)
    assert crash(cooldown).rest("a", 0.0) == 60.0
