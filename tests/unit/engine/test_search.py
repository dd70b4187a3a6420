"""How long somebody waits for a model that looks for a place."""

from __future__ import annotations

from math import inf

import pytest

from lemonpod.engine.search import Search, patience


@pytest.mark.parametrize(
    ("search", "has_place", "now", "expected"),
    [
        (None, True, 10.0, 90.0),  # something is fetched
        (None, True, 100.0, 50.0),  # still: the limit was one for places
        (Search(20.0, None), False, 30.0, 70.0),
        (Search(20.0, None), False, 100.0, 0.0),
        (Search(120.0, None), False, 130.0, 40.0),
        (Search(120.0, None), False, 170.0, 0.0),
        (Search(20.0, 30.0), True, 500.0, inf),  # it loads
        (Search(20.0, 30.0), False, 60.0, 40.0),  # it is to leave
    ],
)
def test_how_much_is_left(search: Search | None, *, has_place: bool, now: float, expected: float) -> None:
    assert patience(search, has_place=has_place, until=100.0, bound=50.0, now=now) == expected


def test_what_counts_as_waiting_for_a_place() -> None:
    assert Search(20.0, None).queued(10.0) == 0.0
    assert Search(20.0, 50.0).queued(10.0) == 30.0
    assert Search(20.0, 50.0).queued(45.0) == 5.0
    assert Search(20.0, 50.0).queued(60.0) == 0.0
