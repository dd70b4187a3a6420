"""Watches how full memory is, and has models make room that may: what `pressure` decides is done here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.engine.api import RUNNING
from lemonpod.engine.instance import Instance
from lemonpod.engine.pressure import Holder, Reading, Relief, is_falling, relief
from lemonpod.engine.settings import MEMORY_THRESHOLD
from lemonpod.engine.stay import Step

POLL: Final = 2.0
"""Seconds between two looks, as Lemonade has it."""
SETTLE: Final = 5.0
"""Seconds until what an engine has given back shows in a reading."""

log = logging.getLogger(__name__)


async def nothing_known(accelerators: frozenset[Accelerator]) -> Reading:
    """For machines whose memory nobody reads."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """How it is read, and from which share on it is scarce."""

    read: Callable[[frozenset[Accelerator]], Awaitable[Reading]] = nothing_known
    """Of these accelerators, without holding up the event loop. Never raises."""
    threshold: float = MEMORY_THRESHOLD


class MemoryWatch:
    """One task, as long as a loaded model may have to make room. Belongs to one pool and its event loop."""

    def __init__(
        self, memory: Memory, lives: Mapping[str, Instance], linger: float, clock: Callable[[], float]
    ) -> None:
        """`linger` is how long an engine must have been idle to leave."""
        self._memory = memory
        self._lives = lives
        self._linger = linger
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._settled = clock()
        """From then on a reading tells of what is loaded now."""
        self._unknown: frozenset[Accelerator] = frozenset()

    def attend(self) -> None:
        """Watch, or no longer: to be called whenever an engine is ready or gone, or is to stay otherwise."""
        if not any(holder.may_leave and holder.state in RUNNING for holder in self._holders()):
            self.stop()
        elif self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch(), name="memory watch")

    def stop(self) -> None:
        """Watch no longer, until `attend` finds a reason."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def settle(self) -> None:
        """Memory has been given back, or is about to be."""
        self._settled = self._clock() + SETTLE

    async def relieve(self, reading: Reading) -> Relief | None:
        """Begin the one step that a reading of now leads to, if it leads to any, and return it."""
        if not any(share >= self._memory.threshold for share in reading.values()):
            return None
        taken = self._clock()
        await asyncio.sleep(self._linger)  # a client that asks again at once finds its model still there
        holders = self._holders()
        if is_falling(holders):
            self.settle()
            return None
        step = relief(holders, reading, threshold=self._memory.threshold, taken=taken, now=self._clock())
        if step is not None:
            self._begin(step)
            self.settle()
        return step

    def _begin(self, step: Relief) -> None:
        instance, full = self._lives[step.model], f"{step.share * 100:.0f} % of the memory was in use"
        if step.step is Step.DOWNSIZE:
            log.info("%s is asked to give memory back: %s", step.model, full)
            instance.give_memory_back()
        else:
            instance.stop(f"{step.model} made room: {full}")

    async def _watch(self) -> None:
        try:
            while True:
                await asyncio.sleep(POLL)
                if self._clock() >= self._settled:
                    await self._look()
        except Exception:
            log.exception("the watch over memory ended by a bug")

    async def _look(self) -> None:
        """Read what could make a model leave now; where all are at work there is nothing to ask."""
        wanted = frozenset(h.accelerator for h in self._holders() if h.may_leave and h.is_idle)
        if not wanted:
            return
        reading = await self._memory.read(wanted)
        unknown = wanted - reading.keys()
        if unknown - self._unknown:
            names = ", ".join(sorted(unknown))
            log.debug("how full memory is cannot be told for %s: no model makes room for it", names)
        self._unknown = unknown
        await self.relieve(reading)

    def _holders(self) -> list[Holder]:
        """Those that were ready, with what they hold."""
        return [
            Holder(
                model=model,
                stay=instance.stay,
                state=instance.state,
                accelerator=instance.plan.accelerator,
                in_flight=instance.in_flight,
                used=instance.used,
                loaded_in=instance.loaded_in,
                can_shrink=instance.plan.downsize_endpoint is not None and not instance.tried_to_downsize,
            )
            for model, instance in self._lives.items()
            if instance.ready_at is not None and instance.plan is not None
        ]
