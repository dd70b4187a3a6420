"""Who has a place now, and who waits for one: the state that `slots` decides about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from lemonpod.engine import slots
from lemonpod.engine.instance import Instance
from lemonpod.engine.slots import Resident, Rules, Wish
from lemonpod.errors import SlotsPinnedError

_SHORTEST: Final = 0.001
"""A clock may say a moment before the end of a wait that it is not over."""


@dataclass(slots=True)
class _Wish:
    instance: Instance
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def snapshot(self) -> Wish:
        instance = self.instance
        return Wish(model=instance.model, claim=instance.claim, since=instance.since)


class Places:
    """Gives places to instances, and takes them back. Belongs to one pool and its event loop."""

    def __init__(self, rules: Rules, clock: Callable[[], float]) -> None:
        self.rules = rules
        self._clock = clock
        self._residents: dict[str, Instance] = {}
        self._wishes: dict[str, _Wish] = {}
        self._timer: asyncio.TimerHandle | None = None

    def take(self, instance: Instance) -> bool:
        """A place at once, where nobody has to leave for it and nobody waits for it already."""
        wish = Wish(model=instance.model, claim=instance.claim, since=self._clock())
        if instance.model not in self._arrangement(wish).grant:
            return False
        self._residents[instance.model] = instance
        return True

    async def wait(self, instance: Instance) -> bool:
        """Return once it has a place; whether it had to wait. Raises SlotsPinnedError."""
        if self._residents.get(instance.model) is instance:
            return False
        wish = self._wishes[instance.model] = _Wish(instance)
        self.arrange()
        had_to_wait = not wish.granted.done()
        try:
            await wish.granted
        except BaseException:
            self.leave(instance)
            raise
        return had_to_wait

    async def wait_alone(self, instance: Instance) -> bool:
        """Trade its place for what it claims now, to be alone; False where no other could leave."""
        others = [other for other in self._residents.values() if other is not instance]
        if all(other.stay.pinned for other in others):
            return False
        del self._residents[instance.model]
        await self.wait(instance)
        return True

    def leave(self, instance: Instance) -> None:
        """It needs its place no more, or no longer waits for one; idempotent."""
        wish = self._wishes.get(instance.model)
        if wish is not None and wish.instance is instance:
            del self._wishes[instance.model]
        if self._residents.get(instance.model) is instance:
            del self._residents[instance.model]
        self.arrange()

    def arrange(self) -> None:
        """Do what has to be done now: whenever something has changed, and when time alone changes it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        step = self._arrangement()
        for model in step.grant:
            wish = self._wishes.pop(model)
            self._residents[model] = wish.instance
            wish.granted.set_result(None)
        for model, pinned in step.refuse.items():
            self._wishes.pop(model).granted.set_exception(_pinned_error(model, pinned))
        for model, successor in step.evict.items():
            self._residents[model].stop(f"{model} made room for {successor}")
        for model in step.close:
            self._residents[model].close()
        for model in step.reopen:
            self._residents[model].open()
        for model, resident in self._residents.items():
            resident.awaited = model in step.awaited
        if isfinite(step.again):
            delay = max(step.again - self._clock(), _SHORTEST)
            self._timer = asyncio.get_running_loop().call_later(delay, self.arrange)

    def _arrangement(self, *more: Wish) -> slots.Arrangement:
        residents = [
            Resident(
                model=model,
                claim=instance.claim,
                phase=instance.phase,
                pinned=instance.stay.pinned,
                in_flight=instance.in_flight,
                used=instance.used,
                ready_since=instance.ready_since,
            )
            for model, instance in self._residents.items()
        ]
        wishes = [wish.snapshot() for wish in self._wishes.values()]
        return slots.arrange(residents, [*wishes, *more], self.rules, self._clock())


def _pinned_error(model: str, pinned: tuple[str, ...]) -> SlotsPinnedError:
    names = ", ".join(pinned)
    return SlotsPinnedError(
        f"{model} has no place: {names} {'is' if len(pinned) == 1 else 'are'} pinned",
        hint=f"unload or unpin {pinned[0]}, or raise max_loaded_models",
    )
