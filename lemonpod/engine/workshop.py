"""What lives are made with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from lemonpod.broker.ports import PortBroker
from lemonpod.engine.api import Driver, Fetch, Planner
from lemonpod.engine.settings import EngineSettings
from lemonpod.launch.plan import TcpEndpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """The same for all lives of a pool."""

    fetch: Fetch
    planner: Planner
    drivers: Sequence[Driver]
    ports: PortBroker
    settings: EngineSettings
    clock: Callable[[], float]
    """Monotonic seconds."""
    downsize: Callable[[TcpEndpoint, str], Awaitable[None]]
    """Asks an engine to give memory back; raises EngineError."""
    changed: Callable[[], None]
    """An engine is ready, is to stay otherwise, or idles while another model waits for its place."""
