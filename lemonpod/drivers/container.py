"""Engines in containers, driven over the API of podman or docker."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lemonpod.drivers.container_engine import ContainerEngine, Workbench
from lemonpod.drivers.container_estate import Estate
from lemonpod.drivers.container_run import ContainerRun
from lemonpod.drivers.runtimes import LocalRuntimes, Runtimes
from lemonpod.drivers.threads import Threads
from lemonpod.engine.api import Adoptable
from lemonpod.engine.journal import Journal
from lemonpod.engine.settings import EngineSettings
from lemonpod.launch.plan import ContainerLaunch, LaunchPlan


class ContainerDriver:
    """Runs engines in containers. `state_dir` holds what a later run needs to find them after a crash; a run
    that has none leaves no file there, and asks no runtime anything."""

    name: Final = "container"

    def __init__(
        self,
        state_dir: Path,
        environ: Mapping[str, str],
        settings: EngineSettings,
        *,
        runtimes: Runtimes | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._settings = settings
        self._threads = Threads("lemonpod-container-files")
        self._runtimes = runtimes or LocalRuntimes(environ, state_dir)
        self._run = ContainerRun(state_dir)
        self._estate = Estate(state_dir, self._runtimes, self._threads)
        self._bench = Workbench(
            runtimes=self._runtimes,
            run=self._run,
            threads=self._threads,
            environ=environ,
            settings=settings,
            journal=journal or Journal(),
            dead=lambda: self._estate.dead,
        )
        self._numbers = itertools.count(1)
        self._engines: list[ContainerEngine] = []

    @property
    def run(self) -> str:
        """The id of this server run."""
        return self._run.id

    def accepts(self, plan: LaunchPlan) -> bool:
        return isinstance(plan.spec, ContainerLaunch)

    def create(self, plan: LaunchPlan) -> ContainerEngine:
        """Of a plan that `adoptable` lists, the engine takes over what runs."""
        if not isinstance(plan.spec, ContainerLaunch):
            raise TypeError("the plan is not for a container")
        survivor = self._estate.take(plan)
        engine = ContainerEngine(plan, plan.spec, next(self._numbers), self._bench, survivor)
        self._engines = [one for one in self._engines if not one.over] + [engine]
        return engine

    async def reclaim(self, *, at_once: asyncio.Event | None = None) -> Sequence[str]:
        """Remove what does not run any more; what runs is left to be adopted, or to `settle`."""
        return await self._estate.look()

    @property
    def unsettled(self) -> bool:
        """Some runtime did not answer when `reclaim` asked it."""
        return self._estate.unsettled

    def adoptable(self) -> Sequence[Adoptable]:
        return self._estate.adoptable()

    async def settle(self) -> Sequence[str]:
        return await self._estate.settle(self._settings.stop_grace)

    async def aclose(self) -> None:
        """As every driver's; what could not be ended is tried once more, and else is the next server's."""
        for engine in self._engines:
            await engine.aclose()
        await self._run.aclose()
        await self._estate.aclose()
        await self._threads.run(self._run.close)
        await self._runtimes.aclose()
        await self._threads.aclose()
