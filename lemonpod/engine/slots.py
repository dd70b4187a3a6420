"""Who may have a place, who leaves for it, and when. Pure: a snapshot goes in, an `Arrangement` comes out.

Places are given in the order in which their first requests came. An engine in demand keeps its place for a
turn, so that requests for models that exclude each other are collated instead of swapping at each; one that
nobody uses leaves sooner. Nobody gets a place past an older wish that needs it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import Final

from lemonpod.contract.vocabulary import Mode, SlotPolicy

UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a model asks of the machine for as long as it has a place."""

    kind: Mode
    policy: SlotPolicy
    on_npu: bool
    alone: bool = False
    """Until it is ready nothing else may be loaded, but for what is pinned: its first try failed."""

    @property
    def counts(self) -> bool:
        """Against the limit of its kind."""
        return self.policy is not SlotPolicy.UNMETERED


class Phase(Enum):
    """What may be done with an engine that has a place."""

    FIXED = auto()
    """It starts, or gives back memory: it can only be waited for."""
    OPEN = auto()
    CLOSED = auto()
    """No request gets in any more; it leaves when the last is through."""
    LEAVING = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """An engine that has a place. Times are those of one monotonic clock."""

    model: str
    claim: Claim
    phase: Phase
    pinned: bool
    in_flight: int
    used: float
    ready_since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A model that wants a place. `since` is when the first of its requests came."""

    model: str
    claim: Claim
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    limit: int
    """Of engines of one kind; UNLIMITED for any number."""
    turn: float
    """From ready on: how long an engine in demand keeps its place while others want it."""
    linger: float
    """Within its turn: how long an engine must have been idle to lose its place."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What is to be done now. `again` is when time alone will change it; inf for never."""

    grant: tuple[str, ...]
    refuse: Mapping[str, tuple[str, ...]]
    """Wishes that nothing could fulfil, and the pinned models in their way."""
    evict: Mapping[str, str]
    """Idle ones that leave, and the model that each makes room for."""
    close: tuple[str, ...]
    reopen: tuple[str, ...]
    awaited: frozenset[str]
    """Those whose next change is waited for."""
    again: float


def exclude(one: Claim, other: Claim) -> bool:
    """Whether the two may never be loaded at the same time, however many places there are.

    On the NPU an exclusive engine tolerates no other, and those that coexist only their like of other kinds.
    """
    if not (one.on_npu and other.on_npu):
        return False
    policies = {one.policy, other.policy}
    if SlotPolicy.EXCLUSIVE_NPU in policies:
        return True
    if policies == {SlotPolicy.COEXIST_BY_TYPE}:
        return one.kind is other.kind
    return SlotPolicy.COEXIST_BY_TYPE in policies


def arrange(residents: Sequence[Resident], wishes: Sequence[Wish], rules: Rules, now: float) -> Arrangement:
    """The next step for all wishes, the oldest first."""
    work = _Arranging(rules, now, present=list(residents))
    for wish in sorted(wishes, key=lambda wish: wish.since):
        work.consider(wish)
    return work.result()


@dataclass
class _Arranging:
    rules: Rules
    now: float
    present: list[Resident]
    """All that have a place, those included that this arrangement gives one."""
    ahead: list[Wish] = field(default_factory=list)
    """Older wishes that still wait."""
    victims: dict[str, str] = field(default_factory=dict)
    grants: list[str] = field(default_factory=list)
    refused: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def consider(self, wish: Wish) -> None:
        staying = [r for r in self.present if r.phase is not Phase.LEAVING and r.model not in self.victims]
        rivals = [r for r in staying if _is_in_the_way(r, wish)]
        peers = [r for r in staying if r not in rivals and _share_a_limit(wish.claim, r.claim)]
        pinned = [r.model for r in rivals if r.pinned and exclude(wish.claim, r.claim)]
        fixtures = [r.model for r in peers if r.pinned]
        if pinned or self._surplus(len(fixtures) + 1):
            self.refused[wish.model] = tuple(pinned or fixtures)
            return
        queued = sum(_share_a_limit(wish.claim, older.claim) for older in self.ahead)
        surplus = self._surplus(len(peers) + queued + 1)
        movable = sorted((r for r in peers if not r.pinned), key=_reluctance)
        if surplus > len(movable) or any(_clash(wish.claim, older.claim) for older in self.ahead):
            self.ahead.append(wish)  # first comes an older one, which asks others to leave for itself
            return
        rivals += movable[:surplus]
        if rivals or not self._fits(wish):
            self.victims |= {rival.model: wish.model for rival in rivals}
            self.ahead.append(wish)
        else:
            self.grants.append(wish.model)
            self.present.append(_newcomer(wish, self.now))

    def result(self) -> Arrangement:
        evict: dict[str, str] = {}
        close: list[str] = []
        again = inf
        for resident in self.present:
            if resident.model not in self.victims or resident.phase is Phase.FIXED:
                continue
            over = resident.ready_since + self.rules.turn
            is_closed = resident.phase is Phase.CLOSED
            if resident.in_flight:
                if not is_closed and self.now >= over:
                    close.append(resident.model)
                elif not is_closed:
                    again = min(again, over)
                continue
            leaves = self.now if is_closed else min(over, resident.used + self.rules.linger)
            if self.now >= leaves:
                evict[resident.model] = self.victims[resident.model]
            else:
                again = min(again, leaves)
        return Arrangement(
            grant=tuple(self.grants),
            refuse=self.refused,
            evict=evict,
            close=tuple(close),
            reopen=tuple(
                r.model for r in self.present if r.phase is Phase.CLOSED and r.model not in self.victims
            ),
            awaited=frozenset(self.victims),
            again=again,
        )

    def _surplus(self, count: int) -> int:
        """How many of one kind would be too many."""
        return 0 if self.rules.limit == UNLIMITED else max(0, count - self.rules.limit)

    def _fits(self, wish: Wish) -> bool:
        """Also beside those that are about to leave, and have not left."""
        count = sum(_share_a_limit(wish.claim, r.claim) for r in self.present)
        return not self._surplus(count + 1) and not any(_is_in_the_way(r, wish) for r in self.present)


def _is_in_the_way(resident: Resident, wish: Wish) -> bool:
    """Whatever the limits are. A wish to be alone spares what is pinned."""
    if exclude(wish.claim, resident.claim) or resident.claim.alone:
        return True
    return wish.claim.alone and not resident.pinned


def _clash(one: Claim, other: Claim) -> bool:
    return one.alone or other.alone or exclude(one, other)


def _share_a_limit(one: Claim, other: Claim) -> bool:
    return one.counts and other.counts and one.kind is other.kind


def _reluctance(resident: Resident) -> tuple[bool, bool, bool, float]:
    """Which of several goes first: one that was asked already, an idle one, the least recently used."""
    is_busy = resident.in_flight > 0
    return (resident.phase is not Phase.CLOSED, resident.phase is Phase.FIXED, is_busy, resident.used)


def _newcomer(wish: Wish, now: float) -> Resident:
    return Resident(
        model=wish.model,
        claim=wish.claim,
        phase=Phase.FIXED,
        pinned=False,
        in_flight=0,
        used=now,
        ready_since=now,
    )
