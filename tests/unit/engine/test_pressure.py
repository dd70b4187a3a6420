"""Who makes room when memory gets scarce, as a decision about values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.engine.api import InstanceState
from lemonpod.engine.pressure import Holder, Reading, Relief, is_falling, relief
from lemonpod.engine.stay import Stay, Step

ON = Stay(auto_evict=True)
FULL: Reading = {Accelerator.ROCM: 0.95}
NOW = 1000.0


def holder(model: str = "a", **changes: object) -> Holder:
    plain = Holder(
        model=model,
        stay=ON,
        state=InstanceState.READY,
        accelerator=Accelerator.ROCM,
        in_flight=0,
        used=900.0,
        loaded_in=10.0,
        can_shrink=False,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def chosen(*holders: Holder, reading: Reading = FULL, taken: float = NOW) -> Relief | None:
    return relief(holders, reading, threshold=0.9, taken=taken, now=NOW)


@pytest.mark.parametrize(
    "spared",
    [
        holder(in_flight=1),
        holder(stay=replace(ON, pinned=True)),
        holder(stay=Stay()),
        holder(state=InstanceState.EVICTING),
        holder(state=InstanceState.STOPPING),
        holder(state=InstanceState.DOWNSIZING),
        holder(accelerator=Accelerator.CPU),
        holder(accelerator=Accelerator.CUDA),
    ],
)
def test_who_never_makes_room(spared: Holder) -> None:
    assert chosen(holder("b")) == Relief("b", Step.UNLOAD, 0.95)
    assert chosen(spared) is None
    assert chosen(spared, holder("b", used=999.0)) == Relief("b", Step.UNLOAD, 0.95)


def test_from_the_threshold_on() -> None:
    assert chosen(holder(), reading={Accelerator.ROCM: 0.9}) is not None
    assert chosen(holder(), reading={Accelerator.ROCM: 0.899}) is None
    assert chosen(holder(), reading={}) is None


def test_a_reading_counts_for_those_that_were_not_used_since() -> None:
    assert chosen(holder(used=901.0), taken=900.0) is None
    assert chosen(holder(used=900.0), taken=900.0) is not None


def test_each_memory_is_that_of_its_engines() -> None:
    on_cpu = holder("c", accelerator=Accelerator.CPU, used=0.0)
    assert chosen(holder(), on_cpu) == Relief("a", Step.UNLOAD, 0.95)
    reading = {Accelerator.ROCM: 0.2, Accelerator.CPU: 0.91}
    assert chosen(holder(), on_cpu, reading=reading) == Relief("c", Step.UNLOAD, 0.91)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (holder(used=800.0), holder("b")),
        (holder(loaded_in=1.0), holder("b", used=500.0)),
        (holder(), holder("b", used=500.0, stay=replace(ON, evict_weight_factor=6.0))),
        (holder(stay=replace(ON, evict_weight_factor=0.5)), holder("b", used=850.0)),
        (holder(loaded_in=0.1, stay=replace(ON, evict_weight_factor=5e-324)), holder("b", used=850.0)),
        (holder(loaded_in=None), holder("b", loaded_in=2.0)),
        (holder(loaded_in=0.0), holder("b", used=0.0, loaded_in=0.1)),
    ],
)
def test_longest_unused_for_what_its_load_costs(one: Holder, other: Holder) -> None:
    for order in ((one, other), (other, one)):
        assert chosen(*order) == Relief("a", Step.UNLOAD, 0.95)


def test_memory_first_then_the_place() -> None:
    assert chosen(holder(can_shrink=True), holder("b", used=950.0)) == Relief("a", Step.DOWNSIZE, 0.95)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (InstanceState.READY, False),
        (InstanceState.EVICTING, False),
        (InstanceState.DOWNSIZING, True),
        (InstanceState.STOPPING, True),
    ],
)
def test_memory_that_is_about_to_fall(state: InstanceState, *, expected: bool) -> None:
    assert is_falling([holder("b"), holder(state=state)]) is expected
