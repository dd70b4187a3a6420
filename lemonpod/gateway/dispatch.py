"""From a request to the engine that answers it: model, gate, lease, call."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from lemonpod.contract.vocabulary import Capability
from lemonpod.engine.api import InstanceState, InstanceStatus
from lemonpod.engine.pool import Pool
from lemonpod.errors import MalformedRequestError, PlatformNotSupportedError
from lemonpod.gateway import keys
from lemonpod.gateway.exchange import Call, exchange
from lemonpod.gateway.forward import Manners, relay
from lemonpod.gateway.headers import is_json, to_engine
from lemonpod.gateway.intake import Intake, Upload, name_of, payload_for, received
from lemonpod.gateway.json_body import JsonBody
from lemonpod.gateway.routes import Offer, Route, check_slot, engine_target, require
from lemonpod.host.facts import HostFacts
from lemonpod.inventory.servable import Servable
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.select import select_block

_ENDS_WITH_DONE: Final = frozenset({Capability.CHAT_COMPLETION, Capability.COMPLETION})
_MAKES_A_FILE: Final = frozenset({Capability.TTS, Capability.AUDIO_GENERATION, Capability.MODEL_3D})


async def serve(route: Route, request: web.Request) -> web.StreamResponse:
    """Answer one request on a capability's route."""
    app = request.app
    app[keys.STATS].requests += 1
    slot = request.match_info.get("id")
    if slot is not None:
        check_slot(slot, request.query.getall("action", []))
    if not request.rel_url.raw_query_string.isascii():
        raise MalformedRequestError("The query holds characters that are not percent-encoded")
    async with received(route, request) as intake:
        asked = name_of(intake) or request.query.get("model")
        model = await _choose(app, route, asked)
        request[keys.REQUESTED_MODEL] = asked or model
        async with app[keys.POOL].lease(model) as lease:
            require(route, Offer.of_plan(lease.plan))  # the manifest may have changed since `_choose`
            call = _call(route, request, intake, lease.plan, slot)
            async with exchange(app[keys.SESSION], lease, call) as answer:
                manners = Manners(
                    model=asked,
                    wants_done=route.capability in _ENDS_WITH_DONE,
                    wants_output=route.capability in _MAKES_A_FILE,
                )
                return await relay(request, answer, manners)


async def _choose(app: web.Application, route: Route, asked: str | None) -> str:
    """The canonical id of the model that is to answer, once it is known to be of the right kind."""
    if asked is None:
        return _last_used(app[keys.POOL], route)
    inventory = app[keys.INVENTORY]
    servable = await inventory.lookup(asked)
    plan = _running(app[keys.POOL].status(servable.entry.id))
    offer = Offer.of_plan(plan) if plan else _offer_of(servable, inventory.facts)
    if offer is not None:
        require(route, offer)
    return servable.entry.id


def _last_used(pool: Pool, route: Route) -> str:
    """The running model that was used last, of those that have the capability if any does."""
    plans = [plan for status in pool.statuses() if (plan := _running(status))]
    if not plans:
        raise MalformedRequestError("No model loaded and no model specified in request")
    plan = next((plan for plan in plans if route.capability in plan.capabilities), plans[0])
    require(route, Offer.of_plan(plan))
    return plan.model


def _running(status: InstanceStatus | None) -> LaunchPlan | None:
    return status.plan if status is not None and status.state is InstanceState.READY else None


def _offer_of(servable: Servable, facts: HostFacts) -> Offer | None:
    """What the manifest says the model could do; None where the load itself will tell what is wrong."""
    if servable.manifest is None or servable.recipe_problem is not None:
        return None
    try:
        device = select_block(servable.manifest, facts, None).device
    except PlatformNotSupportedError:
        return None
    return Offer(mode=servable.mode, capabilities=frozenset(servable.manifest.capabilities), device=device)


def _call(route: Route, request: web.Request, intake: Intake, plan: LaunchPlan, slot: str | None) -> Call:
    headers = to_engine(request.headers)
    if isinstance(intake, Upload):
        headers["Content-Length"] = str(intake.size)
    elif isinstance(intake, JsonBody) and not is_json(headers):
        headers["Content-Type"] = "application/json"  # it is, whatever curl's default says
    remap = plan.engine_paths.get(route.capability)
    return Call(
        method=request.method,
        target=engine_target(route, remap, slot, request.rel_url.raw_query_string),
        headers=headers,
        body=payload_for(intake, plan.model),
    )
