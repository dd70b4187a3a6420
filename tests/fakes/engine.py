"""Engines that exist in memory only, and do at once what a test tells them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.vocabulary import JsonValue
from lemonpod.engine.api import EngineState, EngineStats, EngineStatus, ExitStatus, LogLine, Progress, Report
from lemonpod.engine.failure import LOG_TAIL, exited_error
from lemonpod.engine.logbuf import LogBuffer
from lemonpod.errors import EngineError, LemonpodError
from lemonpod.launch.plan import LaunchPlan
from tests.factories import make_plan


@dataclass
class FakeHabits:
    """What the engines of a driver do; those that exist already share it."""

    answers: bool = True
    """What the probe says."""
    preparing: tuple[Progress, ...] = ()
    prepared: asyncio.Event | None = None
    """A preparation goes on until then."""
    prepare_error: LemonpodError | None = None
    spawn_error: LemonpodError | None = None
    dies_at_start: int | None = None
    """The exit code of an engine that ends as soon as it has started."""
    stubborn: bool = False
    """Ends only when it is hurried."""
    immortal: bool = False
    """Cannot be ended."""


class FakeEngine:
    def __init__(self, plan: LaunchPlan, habits: FakeHabits) -> None:
        self.plan = plan
        self.habits = habits
        self.probes = 0
        self.graces: list[float] = []
        self.trouble: str | None = None
        self._log = LogBuffer()
        self._exit: asyncio.Future[ExitStatus] | None = None
        self._hurried = asyncio.Event()

    @property
    def running(self) -> bool:
        return self._exit is not None and not self._exit.done()

    def die(self, code: int) -> None:
        """End by itself."""
        assert self._exit is not None
        self._exit.set_result(ExitStatus(code=code))

    async def prepare(self, report: Report) -> None:
        for progress in self.habits.preparing:
            report(progress)
            await asyncio.sleep(0)
        if self.habits.prepared is not None:
            await self.habits.prepared.wait()
        if self.habits.prepare_error is not None:
            raise self.habits.prepare_error

    async def start(self) -> EngineStatus:
        await asyncio.sleep(0)
        if self.habits.spawn_error is not None:
            raise self.habits.spawn_error
        self._exit = asyncio.get_running_loop().create_future()
        self._log.extend([b"engine started"])
        if self.habits.dies_at_start is not None:
            self.die(self.habits.dies_at_start)
        return await self.inspect()

    async def probe(self) -> bool:
        await asyncio.sleep(0)
        self.probes += 1
        if self._exit is not None and self._exit.done():
            raise exited_error(self.plan, self._exit.result(), self.log_tail(LOG_TAIL))
        return self.habits.answers and self.running

    async def diagnose(self) -> str:
        return "the fake was told to say no"

    async def inspect(self) -> EngineStatus:
        if self._exit is None:
            return EngineStatus(state=EngineState.CREATED)
        if self._exit.done():
            return EngineStatus(state=EngineState.EXITED, pid=1, started_at=1.0, exit=self._exit.result())
        return EngineStatus(state=EngineState.RUNNING, pid=1, started_at=1.0)

    async def stats(self) -> EngineStats:
        return EngineStats(memory_bytes=1) if self.running else EngineStats()

    def logs(self, *, tail: int | None = None, follow: bool = False) -> AsyncGenerator[LogLine, None]:
        return self._log.read(tail=tail, follow=follow)

    def log_tail(self, count: int) -> tuple[str, ...]:
        return self._log.tail(count)

    async def wait(self) -> ExitStatus:
        assert self._exit is not None
        return await asyncio.shield(self._exit)

    async def stop(self, *, grace: float) -> ExitStatus:
        self.graces.append(grace)
        await asyncio.sleep(0)
        if self.habits.immortal:
            raise EngineError(f"the engine of {self.plan.model} cannot be ended: fake (pid 1)")
        if self._exit is None:
            return ExitStatus(wanted=True)
        if grace <= 0:
            self._hurried.set()
        if self.habits.stubborn:
            await self._hurried.wait()
        if not self._exit.done():
            self._exit.set_result(ExitStatus(signal=15, wanted=True))
        self._log.close()
        return self._exit.result()


@dataclass
class FakeDriver:
    name: str = "fake"
    habits: FakeHabits = field(default_factory=FakeHabits)
    special: dict[str, FakeHabits] = field(default_factory=dict)
    """Habits of single models."""
    engines: list[FakeEngine] = field(default_factory=list)

    def accepts(self, plan: LaunchPlan) -> bool:
        return True

    def create(self, plan: LaunchPlan) -> FakeEngine:
        self.engines.append(FakeEngine(plan, self.special.get(plan.model, self.habits)))
        return self.engines[-1]

    @property
    def running(self) -> list[FakeEngine]:
        return [engine for engine in self.engines if engine.running]

    async def reclaim(self, *, at_once: asyncio.Event | None = None) -> Sequence[str]:
        return ()

    async def aclose(self) -> None:
        assert not self.running


@dataclass
class FakePlanner:
    """Plans whose digest depends on the model, its options and the `edition` of the manifest."""

    probe: HealthProbe = field(default_factory=lambda: HealthProbe(timeout=5.0, interval=0.005))
    edition: int = 1
    error: LemonpodError | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    calls: int = 0

    def __post_init__(self) -> None:
        self.gate.set()

    async def plan(self, model: str, overrides: Mapping[str, JsonValue], port: int) -> LaunchPlan:
        self.calls += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        shown = {key: value for key, value in sorted(overrides.items()) if value is not None}
        digest = hashlib.sha256(f"{model} {shown} {self.edition}".encode()).hexdigest()
        return replace(
            make_plan("fake", port=port, probe=self.probe, options=shown), model=model, digest=digest
        )
