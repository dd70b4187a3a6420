"""Which engines may be loaded together, who makes room for whom, and when."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from lemonpod.contract.vocabulary import Mode, SlotPolicy
from lemonpod.engine.slots import (
    UNLIMITED,
    Arrangement,
    Claim,
    Phase,
    Resident,
    Rules,
    Wish,
    arrange,
    exclude,
)

NOW = 1000.0
TURN, LINGER = 30.0, 0.25
STANDARD, EXCLUSIVE = SlotPolicy.STANDARD, SlotPolicy.EXCLUSIVE_NPU
COEXIST, UNMETERED = SlotPolicy.COEXIST_BY_TYPE, SlotPolicy.UNMETERED


def claim(policy: SlotPolicy = STANDARD, kind: Mode = Mode.CHAT, **more: Any) -> Claim:
    return Claim(kind=kind, policy=policy, **({"on_npu": policy in (EXCLUSIVE, COEXIST)} | more))


def resident(model: str, its: Claim | None = None, **more: Any) -> Resident:
    """Idle and ready for long, unless told otherwise."""
    given: dict[str, Any] = {"phase": Phase.OPEN, "pinned": False, "in_flight": 0, "used": NOW - 500}
    return Resident(model=model, claim=its or claim(), **(given | {"ready_since": NOW - 900} | more))


def wish(model: str, its: Claim | None = None, since: float = NOW) -> Wish:
    return Wish(model=model, claim=its or claim(), since=since)


def step(residents: list[Resident], *wishes: Wish, limit: int = 1) -> Arrangement:
    return arrange(residents, wishes, Rules(limit=limit, turn=TURN, linger=LINGER), NOW)


NPU_CHAT, NPU_EMBED = claim(on_npu=True), claim(on_npu=True, kind=Mode.EMBEDDINGS)


@pytest.mark.parametrize(
    ("one", "other", "excluded"),
    [
        (claim(), claim(), False),
        (claim(EXCLUSIVE), claim(), False),  # one of them is not on the NPU
        (claim(EXCLUSIVE), NPU_EMBED, True),
        (claim(EXCLUSIVE), claim(EXCLUSIVE, Mode.TTS), True),
        (claim(EXCLUSIVE), claim(COEXIST, Mode.TTS), True),
        (claim(EXCLUSIVE), claim(UNMETERED, on_npu=True), True),
        (claim(COEXIST), claim(COEXIST), True),
        (claim(COEXIST), claim(COEXIST, Mode.EMBEDDINGS), False),
        (claim(COEXIST), NPU_EMBED, True),
        (claim(COEXIST), claim(UNMETERED, on_npu=True), True),
        (claim(EXCLUSIVE, on_npu=False), NPU_CHAT, False),  # its manifest's block for the CPU was taken
        (NPU_CHAT, NPU_EMBED, False),
    ],
)
def test_what_may_not_be_loaded_together(one: Claim, other: Claim, *, excluded: bool) -> None:
    assert exclude(one, other) is exclude(other, one) is excluded


def test_there_is_room() -> None:
    assert step([], wish("a")).grant == ("a",)
    assert step([resident("e", claim(kind=Mode.EMBEDDINGS))], wish("a")).grant == ("a",)
    assert step([resident("u", claim(UNMETERED))], wish("a")).grant == ("a",)
    assert step([resident("b")], wish("a", claim(UNMETERED))).grant == ("a",)
    assert step([resident("b")], wish("a"), limit=UNLIMITED).grant == ("a",)


def test_the_least_recently_used_of_the_kind_makes_room() -> None:
    here = [resident("a", used=NOW - 2), resident("b", used=NOW - 3), resident("c", used=NOW - 1)]
    here.append(resident("e", claim(kind=Mode.EMBEDDINGS), used=NOW - 9))
    here.append(resident("u", claim(UNMETERED), used=NOW - 9))
    found = step(here, wish("d"), limit=3)
    assert (found.evict, found.grant) == ({"b": "d"}, ())


def test_an_idle_one_makes_room_before_one_at_work() -> None:
    here = [resident("a", used=NOW - 99, in_flight=1), resident("b", used=NOW - 1)]
    assert step(here, wish("c"), limit=2).evict == {"b": "c"}


def test_who_leaves_still_counts() -> None:
    found = step([resident("a", phase=Phase.LEAVING)], wish("b"))
    assert (found.grant, found.evict, found.again) == ((), {}, inf)


def test_the_pinned_stay_and_are_named() -> None:
    here = [resident("a", pinned=True), resident("b", pinned=True)]
    assert step(here, wish("c"), limit=2).refuse == {"c": ("a", "b")}
    assert step([*here, resident("d", used=NOW)], wish("c"), limit=3).evict == {"d": "c"}
    npu = [resident("a", claim(EXCLUSIVE), pinned=True)]
    assert step(npu, wish("b", NPU_EMBED), limit=UNLIMITED).refuse == {"b": ("a",)}


def test_an_engine_in_demand_keeps_its_place_for_a_turn() -> None:
    busy = resident("a", in_flight=1, used=NOW, ready_since=NOW - 10)
    found = step([busy], wish("b"))
    assert (found.close, found.evict, found.again) == ((), {}, NOW + 20)
    assert found.awaited == {"a"}
    over = resident("a", in_flight=1, used=NOW, ready_since=NOW - TURN)
    assert step([over], wish("b")).close == ("a",)


def test_within_its_turn_it_may_be_idle_for_a_moment() -> None:
    just = resident("a", used=NOW - 0.1, ready_since=NOW - 10)
    found = step([just], wish("b"))
    assert (found.evict, found.again) == ({}, just.used + LINGER)
    idle = resident("a", used=NOW - LINGER, ready_since=NOW - 10)
    assert step([idle], wish("b")).evict == {"a": "b"}


def test_a_closed_one_leaves_once_the_last_is_through_and_opens_again_if_nobody_wants_it() -> None:
    closed = resident("a", phase=Phase.CLOSED, in_flight=1, used=NOW)
    assert step([closed], wish("b")) == step([closed], wish("b"))
    assert (step([closed], wish("b")).evict, step([closed], wish("b")).again) == ({}, inf)
    assert step([resident("a", phase=Phase.CLOSED, used=NOW)], wish("b")).evict == {"a": "b"}
    assert step([closed]).reopen == ("a",)
    pinned = resident("a", phase=Phase.CLOSED, in_flight=1, pinned=True)
    assert step([pinned], wish("b")).reopen == ("a",)


def test_one_that_starts_is_waited_for() -> None:
    found = step([resident("a", phase=Phase.FIXED)], wish("b"))
    assert (found.evict, found.close, found.again) == ({}, (), inf)
    assert found.awaited == {"a"}


def test_the_older_wish_comes_first() -> None:
    assert step([], wish("young", since=2.0), wish("old", since=1.0)).grant == ("old",)


def test_nobody_overtakes_an_older_wish_that_he_would_be_in_the_way_of() -> None:
    here = [resident("a", claim(COEXIST), in_flight=1, used=NOW, ready_since=NOW)]
    old = wish("old", claim(EXCLUSIVE, Mode.TTS), since=1.0)
    young = wish("young", claim(COEXIST, Mode.EMBEDDINGS), since=2.0)
    assert step(here, young).grant == ("young",)
    assert step(here, young, old).grant == ()
    other = wish("other", claim(kind=Mode.RERANKING), since=3.0)
    assert step(here, young, old, other).grant == ("other",)


def test_two_wishes_ask_two_others_to_leave() -> None:
    here = [resident("a", used=1.0), resident("b", used=2.0)]
    found = step(here, wish("c", since=1.0), wish("d", since=2.0), limit=2)
    assert found.evict == {"a": "c", "b": "d"}


def test_who_wants_to_be_alone_makes_all_leave_but_the_pinned() -> None:
    here = [
        resident("a", claim(kind=Mode.EMBEDDINGS)),
        resident("u", claim(UNMETERED)),
        resident("p", claim(kind=Mode.TTS), pinned=True),
    ]
    lonely = wish("b", claim(alone=True))
    assert step(here, lonely, limit=UNLIMITED).evict == {"a": "b", "u": "b"}
    assert step(here[2:], lonely, limit=UNLIMITED).grant == ("b",)


def test_nobody_joins_who_is_alone() -> None:
    alone = resident("a", claim(alone=True), phase=Phase.FIXED, pinned=True)
    found = step([alone], wish("b", claim(kind=Mode.EMBEDDINGS)), limit=UNLIMITED)
    assert (found.grant, found.refuse) == ((), {})
    assert found.awaited == {"a"}
