"""The seam between deciding and doing: what an engine is to everything above the drivers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.launch.plan import LaunchPlan


class EngineState(StrEnum):
    """What the operating system says of an engine."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitStatus:
    """How an engine ended. Exactly one of `code` and `signal` is known, or neither."""

    code: int | None = None
    signal: int | None = None
    wanted: bool = False
    """We asked it to end: no crash, whatever the code."""
    left_behind: tuple[str, ...] = ()
    """What its main process did not take along when it ended by itself, as `sleep (pid 12)`."""
    reason: str | None = None
    """Where somebody knows more, what it came from or what its code stands for, as `out of memory`."""

    def __str__(self) -> str:
        if self.signal is not None:
            try:
                name = signal.Signals(self.signal).name
            except ValueError:
                name = "unknown signal"
            text = f"killed by signal {self.signal} ({name})"
        elif self.code is not None:
            text = f"exited with code {self.code}"
        else:
            return self.reason or "ended in an unknown way"
        if self.reason is not None:
            text = f"{text}: {self.reason}"
        return f"{text} and left {', '.join(self.left_behind)} behind" if self.left_behind else text


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    state: EngineState
    pid: int | None = None
    started_at: float | None = None
    """Wall clock, seconds since the epoch."""
    exit: ExitStatus | None = None
    container: str | None = None
    """Its name, where it is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """Summed over the engine's processes; unknown is `None`."""

    cpu_percent: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of an engine's output. `seq` counts up by one for the life of a log buffer."""

    seq: int
    time: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a preparation is. `total` may still grow, and is None as long as nobody knows it."""

    text: str
    """What is being done, as `pulling ghcr.io/x/y:z`."""
    done_bytes: int = 0
    total_bytes: int | None = None


Report: TypeAlias = Callable[[Progress], None]
"""Is told of progress, in the event loop; it never blocks and never raises."""

Fetch: TypeAlias = Callable[[str, Report], Awaitable[None]]
"""Returns when the files of a model, a canonical id, are there as far as that can be had; it may take hours.

Raises LemonpodError. Cancelling it ends the fetching.
"""


class Engine(Protocol):
    """One engine that a plan describes."""

    @property
    def plan(self) -> LaunchPlan: ...

    @property
    def trouble(self) -> str | None:
        """Why it cannot be told at the moment whether the engine runs; None if it can."""

    async def prepare(self, report: Report) -> None:
        """Fetch what a start needs: it may take hours, and no clock of the engine runs yet.

        Raises RuntimeUnavailableError, ImageNotFoundError or PullError. Cancelling it ends the fetching.
        """

    async def start(self) -> EngineStatus:
        """Its status once the process or the container runs; that is not readiness.

        Raises SpawnError, or another EngineError for what a runtime refuses. On failure or cancellation
        nothing is left behind.
        """

    async def probe(self) -> bool:
        """One readiness check, bounded in time. False means "not yet".

        True only when the engine's own port answered: a stranger on the port raises EngineError, a dead
        engine EngineExitedError.
        """

    async def diagnose(self) -> str:
        """For people: why the last probe said no, and what the engine listens on instead."""

    async def inspect(self) -> EngineStatus:
        """The truth from the operating system or the runtime, not from memory. Before `start`: CREATED.

        Raises RuntimeUnavailableError where the runtime does not answer: that is never MISSING.
        """

    async def stats(self) -> EngineStats: ...

    def logs(self, *, tail: int | None = None, follow: bool = False) -> AsyncGenerator[LogLine, None]:
        """The newest `tail` lines (all that are kept, if None), then with `follow` what comes.

        Ends when the engine has ended. A slow reader loses the oldest lines; it never slows the engine.
        """

    def log_tail(self, count: int) -> tuple[str, ...]:
        """The last `count` lines, oldest first."""

    async def wait(self) -> ExitStatus:
        """Wait for the main process's end. Many may wait; a cancelled waiter changes nothing.

        An engine that ended by itself still wants `stop`, which clears away what it left.
        """

    async def stop(self, *, grace: float) -> ExitStatus:
        """Run the stop command, then TERM to the whole tree, after `grace` seconds KILL.

        Returns when every descendant is gone and the port is free, or raises EngineError naming what is
        still there. Idempotent; a second call with a shorter grace hurries the first, and `grace=0` means
        at once, without the stop command. A cancelled caller does not end the stopping.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoptable:
    """An engine that outlived its server."""

    model: str
    port: int
    overrides: Mapping[str, JsonValue]
    """Of the load request that started it."""
    digest: str
    """Of the plan that it was started with."""


class Driver(Protocol):
    """Starts engines of one kind."""

    @property
    def name(self) -> str: ...

    def accepts(self, plan: LaunchPlan) -> bool: ...

    def create(self, plan: LaunchPlan) -> Engine:
        """An engine in state CREATED. No I/O."""

    async def reclaim(self, *, at_once: asyncio.Event | None = None) -> Sequence[str]:
        """End what a dead server of the same cache folder left running; one line for each engine ended.

        Once `at_once` is set without stop commands and without grace.
        """

    async def aclose(self) -> None:
        """Forget the driver's own records. Engines must have been stopped before."""


class Adopter(Driver, Protocol):
    """A driver whose engines may outlive their server: `reclaim` leaves those that run for whoever has the
    plan that they were started with."""

    @property
    def unsettled(self) -> bool:
        """Not all could be looked at or ended: `reclaim` is to be called again by and by."""

    def adoptable(self) -> Sequence[Adoptable]:
        """What `reclaim` left. `create` with the same plan makes an engine whose start only takes it over."""

    async def settle(self) -> Sequence[str]:
        """End what of `adoptable` nobody took over; one line for each."""


class Planner(Protocol):
    """Where the pool gets its plans from, so that each start sees today's manifest and options."""

    async def plan(self, model: str, overrides: Mapping[str, JsonValue], port: int) -> LaunchPlan:
        """Raises ModelNotFoundError, LaunchError or TokenError. `model` is a canonical id."""


class InstanceState(StrEnum):
    """Where the life of a loaded model stands."""

    STARTING = "starting"
    READY = "ready"
    DOWNSIZING = "downsizing"
    """It gives memory back; requests wait until it has."""
    EVICTING = "evicting"
    """Another model needs its place: requests in flight go on, further ones wait."""
    STOPPING = "stopping"
    FAILED = "failed"
    """Not running; kept for its reason and its cool-down."""
    STOPPED = "stopped"


RUNNING: Final = frozenset({InstanceState.READY, InstanceState.DOWNSIZING, InstanceState.EVICTING})
"""It was ready, and is not being stopped."""


class Wait(NamedTuple):
    """What was waited for before there was a lease, in seconds; None where nothing was."""

    queued: float | None = None
    """Until another engine had made room."""
    loaded: float | None = None
    """Until this one was ready, whoever had begun to load it."""


NO_WAIT: Final = Wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus:
    """One line of `status`: an instance as others may see it. Reading it never decides anything."""

    model: str
    state: InstanceState
    plan: LaunchPlan | None
    """None until the first plan is made."""
    pid: int | None
    in_flight: int
    started_at: float | None
    ready_at: float | None
    last_used_at: float | None
    """Wall clock, seconds since the epoch."""
    failure: str | None
    """Why it is FAILED: the cause, exit code or signal, and the last log lines."""
    retry_after: float | None
    """Seconds until a FAILED instance may start again."""
    reset_by_watchdog: bool = False
    """It is FAILED because the watchdog ended it."""
    container: str | None = None
    """The name of its container, where it has one."""
    progress: Progress | None = None
    """While it is prepared for its start."""
    trouble: str | None = None
    """Why nobody can tell at the moment whether it still runs."""
    pinned: bool = False
    waiting: int = 0
    """Requests that wait until it is ready."""
    is_downsized: bool = False
    """It gave memory back, and nobody has used it since."""

    @property
    def is_running(self) -> bool:
        """It was ready, and is not being stopped."""
        return self.state in RUNNING
