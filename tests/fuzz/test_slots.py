"""Whatever is asked of whatever models in whatever order: no rule of the slots is ever broken.

A sequence is some minutes of a busy machine with a simulated clock: requests, loads, unloads, pins, memory
that fills and clients that leave, on models with random policies, sizes and crashes.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from lemonpod.broker.ports import PortBroker
from lemonpod.contract.vocabulary import Mode, SlotPolicy
from lemonpod.engine.api import InstanceState
from lemonpod.engine.memory import Memory
from lemonpod.engine.pool import Pool
from lemonpod.engine.settings import MEMORY_THRESHOLD, EngineSettings
from lemonpod.errors import (
    CoolingDownError,
    EngineExitedError,
    EngineStoppedError,
    ModelNotLoadedError,
    NoSlotError,
    QueueFullError,
    SlotsPinnedError,
)
from tests import virtual_time
from tests.fakes.machine import Machine, Model, SimulatedEngine
from tests.waiting import unused_ports

# Read here, since tests get no environment of the caller's.
SEQUENCES: Final = int(os.environ.get("SLOT_SEQUENCES", "300"))
FIRST: Final = int(os.environ.get("SLOT_FIRST_SEED", "0"))
_PORTS: Final = 20
_A_MOMENT: Final = 0.01
_IDLE: Final = 4.0
"""An engine that nobody has used, started or asked for memory for so long should have made room."""
_FOR_EVER: Final = 50_000.0
"""Whoever waits for so long will never get what he waits for."""
_ALLOWED: Final = (CoolingDownError, EngineExitedError, NoSlotError, QueueFullError, SlotsPinnedError)


def make_models(chance: random.Random) -> dict[str, Model]:
    kinds = chance.choice([[Mode.CHAT], [Mode.CHAT, Mode.EMBEDDINGS]])
    policies = chance.choice([list(SlotPolicy), [SlotPolicy.STANDARD], [SlotPolicy.EXCLUSIVE_NPU]])
    return {
        name: Model(
            name=name,
            kind=chance.choice(kinds),
            policy=chance.choice(policies),
            on_npu=chance.random() < 0.6,
            size=chance.randint(1, 4),
            loads_in=chance.choice([0.5, 3.0, 20.0]),
            ends_in=chance.choice([0.0, 0.1, 4.0]),
            fetches_in=chance.choice([0.0, 0.0, 2.0]),
            lives_for=chance.choice([float("inf")] * 4 + [1.0, 30.0]),
            can_downsize=chance.random() < 0.5,
            options={
                "pinned": chance.random() < 0.15,
                "auto_evict": chance.random() < 0.5,
                "downsize_idle_timeout": 2.0,
                "evict_idle_timeout": chance.choice([0, 5.0, 30.0]),
                "evict_weight_factor": chance.choice([0.5, 1.0, 100.0]),
            },
        )
        for name in "abcdef"[: chance.randint(2, 6)]
    }


class Sequence:
    """One run, and what a bystander knows of it."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        limit = chance.choice([-1, 1, 1, 2, 3])
        memory = chance.choice([float("inf"), 8, 5])
        self.models = make_models(chance)
        self.machine = Machine(
            self.models, limit=limit, memory=memory, chance=chance, on_stop=self._check_stop
        )
        self.settings = EngineSettings(
            watchdog=False,
            swap_wait=chance.choice([20.0, 60.0, 300.0]),
            swap_turn=chance.choice([0.0, 5.0, 30.0]),
            max_queue=chance.choice([3, 100]),
            drain_timeout=chance.choice([0.5, 5.0]),
            cooldown_first=1.0,
            shutdown_timeout=60.0,
        )
        self.is_closing = False
        self.outcomes: Counter[str] = Counter()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        first = unused_ports(_PORTS)
        ports = PortBroker(first, first + _PORTS - 1)
        machine = self.machine
        self.pool = Pool(
            machine,
            [machine],
            ports,
            self.settings,
            max_loaded=machine.limit,
            clock=loop.time,
            downsize=machine.downsize,
            fetch=machine.fetch,
            memory=Memory(read=machine.read) if self.chance.random() < 0.5 else None,
        )
        chance, pace = self.chance, self.chance.choice([0.1, 1.0, 5.0])
        clients = []
        for _ in range(chance.randint(10, 50)):
            await asyncio.sleep(chance.expovariate(1 / pace))
            clients.append(asyncio.create_task(self._something()))
            if chance.random() < 0.1:
                chance.choice(clients).cancel()
        async with asyncio.timeout(_FOR_EVER):
            outcomes = await asyncio.gather(*clients, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        assert all(status.in_flight == status.waiting == 0 for status in self.pool.statuses())
        self.is_closing = True
        await self.pool.aclose()
        assert ports.leased == frozenset()
        assert machine.running == []
        assert all(status.state is InstanceState.FAILED for status in self.pool.statuses())
        assert asyncio.all_tasks() == {asyncio.current_task()}

    def _something(self) -> Coroutine[Any, Any, None]:
        model = self.chance.choice(list(self.models))
        luck = self.chance.random()
        if luck < 0.7:
            return self._request(model, self.chance.choice([0.0, 0.5, 5.0, 50.0]))
        if luck < 0.77:
            return self._load(model)
        if luck < 0.83:
            return self._pin(model, pinned=self.chance.random() < 0.3)
        if luck < 0.95:
            return self._fill(self.chance.choice([0.5, 0.95, 0.95]))
        return self._unload(model)

    async def _request(self, model: str, lasts: float) -> None:
        came = asyncio.get_running_loop().time()
        try:
            async with self.pool.lease(model) as lease:
                engine = next(e for e in reversed(self.machine.engines) if e.plan is lease.plan)
                self._check_wait(came, engine)
                engine.hold()
                try:
                    await asyncio.sleep(lasts)
                finally:
                    engine.let_go()
            self.outcomes["answered"] += 1
        except _ALLOWED as error:
            if isinstance(error, NoSlotError):
                self._check_refusal(came, model)
            self.outcomes[type(error).__name__] += 1
        except EngineStoppedError as error:
            if str(error) != f"{model} was unloaded":
                raise
            self.outcomes["unloaded"] += 1

    def _check_refusal(self, came: float, model: str) -> None:
        """Nobody waited too long, nor for engines that nobody used."""
        now = asyncio.get_running_loop().time()
        assert now <= self._latest(came, model)
        engines = self.machine.engines
        assert any(e.held or e.is_ending or now - e.touched <= _IDLE for e in engines)

    def _check_wait(self, came: float, engine: SimulatedEngine) -> None:
        """Until its engine was started the request waited for others, and after a failed try once more."""
        tries = [e for e in self.machine.engines if e.plan is engine.plan]
        starts = [e.started_at for e in tries if e.started_at is not None]
        assert starts[0] <= self._latest(came, engine.model.name)
        for failed, again in zip(tries, starts[1:], strict=False):
            assert failed.stopped_at is not None
            assert again - failed.stopped_at <= self.settings.swap_wait + _A_MOMENT
            self.outcomes["second try"] += 1

    def _latest(self, came: float, model: str) -> float:
        """When somebody who came then must have got a place, or heard that there is none."""
        bound, fetched = self.settings.swap_wait + _A_MOMENT, self.machine.fetched[model]
        return fetched + bound if fetched > came + self.settings.swap_wait else came + bound

    async def _load(self, model: str) -> None:
        with suppress(*_ALLOWED, EngineStoppedError):
            await self.pool.load(model)

    async def _pin(self, model: str, *, pinned: bool) -> None:
        with suppress(ModelNotLoadedError):
            self.pool.pin(model, pinned=pinned)
            status = self.pool.status(model)
            assert status is not None
            assert status.pinned is pinned
            if status.plan is None:
                self.machine.pins[model] = pinned
            else:
                self._engine_of(model).pinned = pinned

    async def _fill(self, share: float) -> None:
        relief = await self.pool.relieve(share)
        if relief is None:
            return
        engine = self._engine_of(relief.model)
        assert share >= MEMORY_THRESHOLD
        assert engine.model.options["auto_evict"]
        assert engine.held == 0, f"{engine.model} was in use"
        assert not engine.pinned, f"{engine.model} was pinned"
        self.outcomes[f"{relief.step.name} under pressure"] += 1

    async def _unload(self, model: str) -> None:
        with suppress(ModelNotLoadedError):
            status = self.pool.status(model)
            if status is not None and status.plan is not None:
                self._engine_of(model).unloaded = True
            await self.pool.unload(model)

    def _engine_of(self, model: str) -> SimulatedEngine:
        return next(engine for engine in reversed(self.machine.engines) if engine.model.name == model)

    def _check_stop(self, engine: SimulatedEngine) -> None:
        """An engine that was ready and did not die was unloaded, or was idle and not pinned."""
        status = self.pool.status(engine.model.name)
        was_ready = status is not None and status.plan is engine.plan and status.ready_at is not None
        if was_ready and not (engine.over.done() or engine.unloaded or self.is_closing):
            self.outcomes["left"] += 1
            assert engine.held == 0, f"{engine.model} was in use"
            assert not engine.pinned, f"{engine.model} was pinned"


def test_no_sequence_breaks_a_rule() -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + SEQUENCES):
        sequence = Sequence(seed)
        try:
            virtual_time.run(sequence.run())
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        outcomes += sequence.outcomes
    for outcome in (
        "answered",
        "left",
        "second try",
        "SlotsPinnedError",
        "NoSlotError",
        "QueueFullError",
        "DOWNSIZE under pressure",
        "UNLOAD under pressure",
    ):
        assert outcomes[outcome], f"no sequence came to {outcome}: {outcomes}"
