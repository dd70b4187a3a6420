"""Documents that resemble good ones."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st


@st.composite
def near(draw: st.DrawFn, good: dict[str, Any], anything: st.SearchStrategy[Any]) -> dict[str, Any]:
    """What resembles a good object: some of its parts are missing, or exchanged for anything."""
    document = copy.deepcopy(good)
    for _ in range(draw(st.integers(0, 4))):
        if spots := list(_spots(document)):
            place, key = draw(st.sampled_from(spots))
            if draw(st.booleans()):
                del place[key]
            else:
                place[key] = draw(anything)
    return document


def _spots(place: Any) -> Iterator[tuple[Any, Any]]:
    """Everything in it, however deep, as where it is to be found."""
    for key in list(place) if isinstance(place, dict) else range(len(place)):
        yield place, key
        if isinstance(place[key], dict | list):
            yield from _spots(place[key])
