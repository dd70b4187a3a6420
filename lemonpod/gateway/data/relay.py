"""What all data requests share: which of them is one, who may ask, and which engine answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs

from yarl import URL

from lemonpod.contract.vocabulary import Body, Capability
from lemonpod.engine.api import InstanceState, InstanceStatus
from lemonpod.engine.instance import EngineLease
from lemonpod.engine.pool import Pool
from lemonpod.errors import (
    LemonpodError,
    MalformedRequestError,
    ModelNotFoundError,
    ModelNotLoadedError,
    PlatformNotSupportedError,
    UnauthorizedError,
)
from lemonpod.gateway.auth import check_use, keys_of_socket, may_use, proof_of
from lemonpod.gateway.cors import ORIGIN_NOT_ALLOWED, is_allowed
from lemonpod.gateway.data.activity import ActivityLog
from lemonpod.gateway.data.clock import Clock
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.data.upstream import Upstream
from lemonpod.gateway.data.wire import Outbox
from lemonpod.gateway.errors import Answer
from lemonpod.gateway.intake import Intake, load_options
from lemonpod.gateway.routes import (
    PREFIXES,
    ROUTES,
    SOCKET_PREFIXES,
    Offer,
    Route,
    check_slot,
    require,
)
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.gateway.stats import Stats
from lemonpod.host.facts import HostFacts
from lemonpod.inventory.inventory import Inventory
from lemonpod.inventory.servable import Servable
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.select import select_block

log = logging.getLogger(__name__)

_SLOT: Final = "/{id}"
_AT_REST: Final = frozenset({InstanceState.FAILED, InstanceState.STOPPED})


@dataclass(frozen=True, slots=True)
class Target:
    """What a data request is aimed at."""

    route: Route
    slot: str | None
    query: str
    """As it came."""


def _table() -> tuple[dict[tuple[bytes, str], Route], dict[tuple[bytes, str], Route]]:
    """The routes by method and path, and those whose path ends with a slot's number without it."""
    plain: dict[tuple[bytes, str], Route] = {}
    slotted: dict[tuple[bytes, str], Route] = {}
    for route in ROUTES:
        for prefix in SOCKET_PREFIXES if route.spec.body is Body.SOCKET else PREFIXES:
            path = prefix + route.spec.path
            table = slotted if path.endswith(_SLOT) else plain
            methods = (b"GET", b"HEAD") if route.spec.method == "GET" else (route.spec.method.encode(),)
            for method in methods:
                table[method, path.removesuffix(_SLOT)] = route
    return plain, slotted


_PLAIN, _SLOTTED = _table()
_AS_IT_IS: Final = {
    (method, path.encode()): Target(route, None, "") for (method, path), route in _PLAIN.items()
}


def find_target(method: bytes, target: bytes) -> Target | None:
    """The capability's route that is asked for; None where it is another path, which is aiohttp's."""
    if found := _AS_IT_IS.get((method, target)):
        return found
    text = target.decode("latin-1")
    path, _, query = text.partition("?")
    if not query:
        path = path.partition("#")[0]
    if "%" in path or "#" in text or not path.startswith("/"):
        try:
            url = URL.build(path=path, encoded=True) if path.startswith("/") else URL(text, encoded=True)
            path = url.path_safe
        except ValueError:
            return None
        query = query.partition("#")[0]
    if route := _PLAIN.get((method, path)):
        return Target(route, None, query)
    parent, _, slot = path.rpartition("/")
    if slot and (route := _SLOTTED.get((method, parent))):
        return Target(route, slot, query)
    return None


class Relay:
    """The data path's view of the server."""

    def __init__(self, inventory: Inventory, pool: Pool, settings: GatewaySettings, stats: Stats) -> None:
        self.inventory = inventory
        self.pool = pool
        self.settings = settings
        self.stats = stats
        self.activities = ActivityLog(stats, slow=settings.slow_request)
        self._upstreams: dict[asyncio.Event, Upstream] = {}
        """By what says that their engine is about to end: a port may serve another one after it."""
        self._later: set[asyncio.Task[None]] = set()

    def refusal(self, request: Request) -> Answer | None:
        """Why a web page may not ask this, if one asks."""
        origin = request.known.get(b"origin")
        if origin is None:
            return None
        allowed = self.settings.allowed_origins
        if not is_allowed(request.text(b"origin"), host=request.text(b"host"), allowed=allowed):
            return ORIGIN_NOT_ALLOWED
        request.origin = origin
        return None

    def check(self, request: Request, target: Target) -> None:
        """Raise for what the head alone says is wrong."""
        if self.settings.api_key:
            check_use(proof_of(request.known), self.settings)
        if target.slot is not None:
            check_slot(target.slot, parse_qs(target.query, keep_blank_values=True).get("action", []))
        self._count(target)

    def check_socket(self, request: Request, target: Target, protocols: Iterable[str]) -> None:
        """As `check`, of a WebSocket that offers these subprotocols."""
        keys = keys_of_socket(proof_of(request.known), target.query, protocols)
        if not any(may_use(key, self.settings) for key in keys or [b""]):
            raise UnauthorizedError("Invalid or missing API key")
        self._count(target)

    def _count(self, target: Target) -> None:
        self.stats.requests += 1
        if not target.query.isascii():
            raise MalformedRequestError("The query holds characters that are not percent-encoded")

    def try_lease(self, route: Route, asked: str | None) -> EngineLease | None:
        """A ready engine for the model; None where something must be waited for."""
        if asked is None:
            model = self._last_used(route)
        else:
            try:
                model = self.inventory.find(asked).entry.id
            except ModelNotFoundError:
                return None  # a look at the disk may find it
        lease = self.pool.try_lease(model)
        if lease is None:
            return None
        try:
            require(route, lease.plan)
        except BaseException:
            lease.release()
            raise
        return lease

    @asynccontextmanager
    async def lease(self, model: str, intake: Intake) -> AsyncIterator[EngineLease]:
        """A ready engine. One that is started for this request has the context that it asks for; one that
        runs, or is about to, is not started again for that."""
        status, options = self.pool.status(model), load_options(intake)
        if options and (status is None or status.state in _AT_REST):
            await self.pool.load(model, options)
        async with self.pool.lease(model) as lease:
            yield lease

    async def choose(self, route: Route, asked: str | None) -> str:
        """The canonical id of the model that is to answer, once it is known to be of the right kind."""
        await self.inventory.ready()
        if asked is None:
            return self._last_used(route)
        servable = await self.inventory.lookup(asked)
        if (offer := self._offer(servable)) is not None:
            require(route, offer)
        return servable.entry.id

    async def prefer(self, capabilities: Sequence[Capability], asked: str) -> Capability:
        """The first that the model has; the first of all where it has none, or that is not known."""
        await self.inventory.ready()
        offer = self._offer(await self.inventory.lookup(asked))
        declared = capabilities if offer is None else offer.capabilities
        return next((capability for capability in capabilities if capability in declared), capabilities[0])

    async def load(self, asked: str) -> None:
        """Return once the model is ready."""
        await self.inventory.ready()
        async with self.pool.lease((await self.inventory.lookup(asked)).entry.id):
            pass

    async def unload(self, asked: str) -> None:
        """End the model's engine, if it has one that nobody uses now, or waits for, or has pinned."""
        await self.inventory.ready()
        model = (await self.inventory.lookup(asked)).entry.id
        status = self.pool.status(model)
        if status is not None and not (status.in_flight or status.waiting or status.pinned):
            with suppress(ModelNotLoadedError):
                await self.pool.unload(model)

    def upstream(self, lease: EngineLease, clock: Clock, outbox: Outbox) -> Upstream:
        """The connections to the leased engine."""
        upstream = self._upstreams.get(lease.cut)
        if upstream is None:
            upstream = self._upstreams[lease.cut] = Upstream(
                lease.endpoint.host,
                lease.endpoint.port,
                lease.cut,
                clock,
                outbox,
                self.settings.connect_timeout,
                self._forget,
            )
        return upstream

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that no request waits for."""
        task = asyncio.create_task(_quietly(work))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _forget(self, cut: asyncio.Event) -> None:
        self._upstreams.pop(cut, None)

    def close(self) -> None:
        """End what is under way with engines."""
        for upstream in list(self._upstreams.values()):
            upstream.close()
        for task in self._later:
            task.cancel()

    def _offer(self, servable: Servable) -> LaunchPlan | Offer | None:
        running = _running(self.pool.status(servable.entry.id))
        return running or _offer_of(servable, self.inventory.facts)

    def _last_used(self, route: Route) -> str:
        """The running model that was used last, of those that have the capability if any does."""
        plans = [plan for status in self.pool.statuses() if (plan := _running(status))]
        if not plans:
            raise MalformedRequestError("No model loaded and no model specified in request")
        plan = next((plan for plan in plans if route.capability in plan.capabilities), plans[0])
        require(route, plan)
        return plan.model


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except LemonpodError as error:
        log.warning("%s", error)


def _running(status: InstanceStatus | None) -> LaunchPlan | None:
    return status.plan if status is not None and status.is_running else None


def _offer_of(servable: Servable, facts: HostFacts) -> Offer | None:
    """What the manifest says the model could do; None where the load itself will tell what is wrong."""
    if servable.manifest is None or servable.recipe_problem is not None:
        return None
    try:
        device = select_block(servable.manifest, facts, None).device
    except PlatformNotSupportedError:
        return None
    return Offer(mode=servable.mode, capabilities=frozenset(servable.manifest.capabilities), device=device)
