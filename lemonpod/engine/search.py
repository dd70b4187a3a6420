"""How long a model looks for a place, and somebody for a model. Pure; times are those of one clock."""

from __future__ import annotations

from math import inf
from typing import NamedTuple


class Search(NamedTuple):
    """For a place."""

    asked: float
    placed: float | None

    def queued(self, entered: float) -> float:
        """Of the wait of somebody who came then: the seconds in which other models held the place."""
        return 0.0 if self.placed is None else max(0.0, self.placed - max(self.asked, entered))


def patience(search: Search | None, *, has_place: bool, until: float, bound: float, now: float) -> float:
    """The seconds that somebody goes on waiting before he looks again; none are left when it is 0 or less.

    The limit `until` is one for places that others hold: fetching and loading have their own. Where it was
    over while there was still something to fetch, it is `bound` seconds from when a place was asked for.
    """
    if search is None:
        return until - now if until > now else bound
    if has_place:
        return inf
    return (until if search.asked <= until else search.asked + bound) - now
