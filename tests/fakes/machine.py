"""A machine of so much memory, and engines on it that take time, crash, and say who broke a rule."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import inf

from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.vocabulary import Accelerator, JsonValue, Mode, SlotPolicy
from lemonpod.engine.api import EngineState, EngineStats, EngineStatus, ExitStatus, LogLine, Report
from lemonpod.engine.pressure import Reading
from lemonpod.errors import EngineError
from lemonpod.launch.plan import LaunchPlan, TcpEndpoint
from tests.factories import make_plan


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a model is like. Times are in seconds."""

    name: str
    kind: Mode = Mode.CHAT
    policy: SlotPolicy = SlotPolicy.STANDARD
    on_npu: bool = False
    size: int = 1
    loads_in: float = 1.0
    ends_in: float = 0.1
    fetches_in: float = 0.0
    """Its files are here only then."""
    lives_for: float = inf
    """It crashes so long after its start."""
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    can_downsize: bool = False


@dataclass
class Machine:
    """It is Driver and Planner at once; `limit` is what may not be exceeded for each kind."""

    models: Mapping[str, Model]
    limit: int = -1
    memory: float = inf
    chance: random.Random = field(default_factory=random.Random)
    on_stop: Callable[[SimulatedEngine], None] = lambda _: None
    """Is told of each engine that is about to be stopped for the first time."""
    engines: list[SimulatedEngine] = field(default_factory=list)
    pins: dict[str, bool] = field(default_factory=dict)
    """What was said of models that are loaded, and have no engine yet."""
    fetched: dict[str, float] = field(default_factory=dict)
    """When the files of a model were here, for its last life."""
    name: str = "simulated"

    @property
    def running(self) -> list[SimulatedEngine]:
        return [engine for engine in self.engines if engine.occupies]

    def accepts(self, plan: LaunchPlan) -> bool:
        return True

    def create(self, plan: LaunchPlan) -> SimulatedEngine:
        engine = SimulatedEngine(self, self.models[plan.model], plan)
        for earlier in self.engines:
            if earlier.plan is plan:  # of the same life
                engine.pinned = earlier.pinned
        engine.pinned = self.pins.pop(plan.model, engine.pinned)
        self.engines.append(engine)
        return engine

    async def fetch(self, model: str, report: Report) -> None:
        self.pins.pop(model, None)  # a new life
        await asyncio.sleep(self.models[model].fetches_in)
        self.fetched[model] = asyncio.get_running_loop().time()

    async def read(self, accelerators: frozenset[Accelerator]) -> Reading:
        """How full memory is, at random; it may take a while, and be unknown."""
        await asyncio.sleep(self.chance.choice([0.0, 0.0, 3.0]))
        share = self.chance.choice([None, 0.5, 0.95])
        return {} if share is None else dict.fromkeys(accelerators, share)

    async def plan(self, model: str, overrides: Mapping[str, JsonValue], port: int) -> LaunchPlan:
        it = self.models[model]
        plan = make_plan(
            "engine",
            port=port,
            probe=HealthProbe(timeout=60.0, interval=0.5),
            options={**it.options, **overrides},
            accelerator=Accelerator.NPU if it.on_npu else Accelerator.CPU,
            downsize_endpoint="/less" if it.can_downsize else None,
        )
        return replace(plan, model=model, mode=it.kind, slot_policy=it.policy, digest=model)

    async def downsize(self, endpoint: TcpEndpoint, path: str) -> None:
        asked = [engine for engine in self.running if engine.plan.endpoint == endpoint]
        assert all(engine.held == 0 for engine in asked), "it was in use"
        await asyncio.sleep(self.chance.random() * 3)
        for engine in asked:
            assert engine.held == 0, "a request got in"
            engine.touched = asyncio.get_running_loop().time()
        if self.chance.random() < 0.3:
            raise EngineError("it would not")

    async def reclaim(self, *, at_once: asyncio.Event | None = None) -> Sequence[str]:
        return ()

    async def aclose(self) -> None:
        assert not self.running

    def check(self) -> None:
        """What is never to be, in words that know nothing of how places are given."""
        models = [engine.model for engine in self.running]
        for one, other in combinations(models, 2):
            assert one.name != other.name, "two engines of one model"
            assert not _may_not_meet(one, other), f"{one} and {other} run at the same time"
        for kind in {model.kind for model in models}:
            counted = [m.name for m in models if m.kind is kind and m.policy is not SlotPolicy.UNMETERED]
            assert self.limit == -1 or len(counted) <= self.limit, f"{counted} are over the limit"
        for engine in self.running:
            if engine.is_second_try and engine.loads:
                others = [other for other in self.running if other is not engine]
                assert all(other.pinned for other in others), f"{engine.model} is not alone"


def _may_not_meet(one: Model, other: Model) -> bool:
    if not (one.on_npu and other.on_npu):
        return False
    if SlotPolicy.EXCLUSIVE_NPU in (one.policy, other.policy):
        return True
    coexisting = [m for m in (one, other) if m.policy is SlotPolicy.COEXIST_BY_TYPE]
    return len(coexisting) == 1 or (len(coexisting) == 2 and one.kind is other.kind)


class SimulatedEngine:
    trouble: str | None = None

    def __init__(self, machine: Machine, model: Model, plan: LaunchPlan) -> None:
        self.machine, self.model, self.plan = machine, model, plan
        self.started_at: float | None = None
        self.stopped_at: float | None = None
        self.occupies = False
        """Its process is there, or what it left."""
        self.held = 0
        """Requests that use it, as the test counts them."""
        self.touched = asyncio.get_running_loop().time()
        """When something last happened to it."""
        self.pinned = model.options.get("pinned") is True
        self.unloaded = False
        """Somebody has asked for its end."""
        self.over: asyncio.Future[ExitStatus] = asyncio.get_running_loop().create_future()

    @property
    def is_second_try(self) -> bool:
        """An engine of the same life failed to start before it."""
        return next(engine for engine in self.machine.engines if engine.plan is self.plan) is not self

    @property
    def loads(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self.started_at is not None and now < self.started_at + self.model.loads_in

    @property
    def is_ending(self) -> bool:
        return self.stopped_at is not None and self.occupies

    def hold(self) -> None:
        """One request more."""
        self.held += 1

    def let_go(self) -> None:
        """One request less."""
        self.held -= 1
        self.touched = asyncio.get_running_loop().time()

    async def prepare(self, report: Report) -> None:
        await asyncio.sleep(0)

    async def start(self) -> EngineStatus:
        loop = asyncio.get_running_loop()
        self.started_at, self.occupies = loop.time(), True
        self.machine.check()
        if sum(engine.model.size for engine in self.machine.running) > self.machine.memory:
            loop.call_later(self.model.loads_in / 2, self._exit, 1)
        elif self.model.lives_for < inf:
            loop.call_later(self.model.lives_for, self._exit, 9)
        return await self.inspect()

    def _exit(self, code: int) -> None:
        if not self.over.done():
            self.over.set_result(ExitStatus(code=code))

    async def probe(self) -> bool:
        self.touched = asyncio.get_running_loop().time()
        return not self.loads

    async def diagnose(self) -> str:
        return "it loads"

    async def inspect(self) -> EngineStatus:
        return EngineStatus(state=EngineState.RUNNING, pid=1, started_at=1.0)

    async def stats(self) -> EngineStats:
        return EngineStats()

    async def logs(self, *, tail: int | None = None, follow: bool = False) -> AsyncGenerator[LogLine, None]:
        return
        yield

    def log_tail(self, count: int) -> tuple[str, ...]:
        return ()

    async def wait(self) -> ExitStatus:
        return await asyncio.shield(self.over)

    async def stop(self, *, grace: float) -> ExitStatus:
        if self.stopped_at is None:
            self.stopped_at = asyncio.get_running_loop().time()
            self.machine.on_stop(self)
        if not self.over.done():
            await asyncio.sleep(self.model.ends_in if grace and self.occupies else 0)
            self._exit(0)
        self.occupies = False
        self.touched = asyncio.get_running_loop().time()
        return self.over.result()
