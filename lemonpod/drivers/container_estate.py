"""What dead servers of the same state folder left running or lying about, until it is taken over or ended."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.drivers import labels
from lemonpod.drivers.container_run import CONTAINERS, instance_id, is_held, place_of
from lemonpod.drivers.labels import started_as
from lemonpod.drivers.runtime import ContainerRuntime, Listed
from lemonpod.drivers.runtimes import Link, Place, Runtimes
from lemonpod.drivers.state import DeadRun, dead_runs, living_runs
from lemonpod.drivers.threads import Threads
from lemonpod.engine.api import Adoptable
from lemonpod.errors import EngineError
from lemonpod.launch.plan import LaunchPlan

LOOK_TIMEOUT: Final = 15.0
"""For each runtime: one that hangs must not keep a server from serving what runs elsewhere."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A container that outlived its server."""

    link: Link
    container: str
    name: str
    start: Adoptable

    def fits(self, plan: LaunchPlan) -> bool:
        """Whether that plan would start the same."""
        started = (self.start.model, self.start.port, self.start.digest)
        return started == (plan.model, plan.endpoint.port, plan.digest)

    def __str__(self) -> str:
        model, port = self.start.model, self.start.port
        return f"the engine of {model} (container {self.name}, port {port}), left by an earlier run"


class Estate:
    """Looked through at the start of a server, and again as long as something could not be settled.

    Without a dead run on record no runtime is asked.
    """

    def __init__(self, folder: Path, runtimes: Runtimes, threads: Threads) -> None:
        self._folder = folder
        self._runtimes = runtimes
        self._threads = threads
        self._runs: list[DeadRun] = []
        self._survivors: list[Survivor] = []
        self.unsettled = False
        """Something could not be looked at or ended: it is to be looked for again, or by the next server."""

    @property
    def dead(self) -> frozenset[str]:
        """The runs that are held here."""
        return frozenset(run.id for run in self._runs)

    def adoptable(self) -> Sequence[Adoptable]:
        return [survivor.start for survivor in self._survivors]

    def take(self, plan: LaunchPlan) -> Survivor | None:
        """The one that this plan would start again, which then is its taker's."""
        for survivor in self._survivors:
            if survivor.fits(plan):
                self._survivors.remove(survivor)
                return survivor
        return None

    async def look(self) -> list[str]:
        """Keep what runs, and remove the rest; one line for each that is removed."""
        self.unsettled = False
        self._runs += await self._threads.run(lambda: dead_runs(self._folder, CONTAINERS))
        told: list[str] = []
        asked: list[Link] = []
        for place in self._places():
            try:
                async with asyncio.timeout(LOOK_TIMEOUT):
                    link = await self._runtimes.find(place)
                    if link not in asked:
                        asked.append(link)
                        told += await self._look_at(link)
            except (EngineError, TimeoutError) as error:
                self.unsettled = True
                why = str(error) or f"it did not answer within {LOOK_TIMEOUT:g} s"
                log.warning(
                    "what an earlier server left with %s cannot be looked for: %s", place.runtime, why
                )
        if not self._survivors:
            await self.aclose(forget=not self.unsettled)
        return told

    async def settle(self, grace: float) -> list[str]:
        """End what nobody took."""
        left, self._survivors = self._survivors, []
        told = await asyncio.gather(*(self._end(survivor, grace) for survivor in left))
        await self.aclose(forget=not self.unsettled)
        return [line for line in told if line]

    async def aclose(self, *, forget: bool = False) -> None:
        runs, self._runs = self._runs, []

        def let_go() -> None:
            for run in runs:
                if forget:
                    run.forget()
                run.close()

        if runs:
            await self._threads.run(let_go)

    def _places(self) -> list[Place]:
        found = [place_of(record) for run in self._runs for record in run.records]
        return [place for place in dict.fromkeys(found) if place is not None]

    async def _look_at(self, link: Link) -> list[str]:
        told = []
        for one in await link.call(self._ownerless):
            start = started_as(one.labels)
            if one.running and start is not None:
                self._survivors.append(Survivor(link=link, container=one.id, name=one.name, start=start))
                continue
            await link.call(lambda runtime, id=one.id: runtime.remove(id))  # type: ignore[misc]
            model = one.labels.get(labels.MODEL, "an unknown model")
            told.append(f"removed the container {one.name} of {model}, left by an earlier run")
        return told

    def _ownerless(self, runtime: ContainerRuntime) -> list[Listed]:
        """Of this folder's containers those that no living server has."""
        instance = instance_id(self._folder)
        if not instance:
            return []
        living, dead = living_runs(self._folder, CONTAINERS), self.dead
        found = runtime.containers({labels.INSTANCE: instance})
        return [one for one in found if not is_held(one.id, one.labels, living, dead)]

    async def _end(self, survivor: Survivor, grace: float) -> str | None:
        def end(runtime: ContainerRuntime) -> None:
            runtime.stop(survivor.container, math.ceil(grace))
            runtime.remove(survivor.container)

        try:
            await survivor.link.call(end)
        except EngineError as error:
            self.unsettled = True
            log.error("%s cannot be ended: %s", survivor, error)
            return None
        return f"ended {survivor}"
