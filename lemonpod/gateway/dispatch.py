"""From a request to the engine that answers it: model, gate, lease, call."""

from __future__ import annotations

from contextlib import suppress

from aiohttp import web

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.vocabulary import Accelerator, Capability, Mode
from lemonpod.engine.api import InstanceState, InstanceStatus
from lemonpod.errors import MalformedRequestError, PlatformNotSupportedError
from lemonpod.gateway import keys
from lemonpod.gateway.exchange import Call, exchange
from lemonpod.gateway.forward import Manners, relay
from lemonpod.gateway.headers import is_json, to_engine
from lemonpod.gateway.intake import Intake, Upload, name_of, payload_for, received
from lemonpod.gateway.json_body import JsonBody
from lemonpod.gateway.routes import Offer, Route, check_slot, engine_target, require
from lemonpod.host.facts import HostFacts
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.select import select_block

_DONE_TERMINATED = frozenset({Capability.CHAT_COMPLETION, Capability.COMPLETION})


async def serve(route: Route, request: web.Request) -> web.StreamResponse:
    """Answer one request on a capability's route."""
    slot = request.match_info.get("id")
    if slot is not None:
        check_slot(slot, request.query.getall("action", []))
    if not request.rel_url.raw_query_string.isascii():
        raise MalformedRequestError("The query holds characters that are not percent-encoded")
    async with received(route, request) as intake:
        asked = name_of(intake) or request.query.get("model")
        model = await _choose(request.app, route, asked)
        request[keys.REQUESTED_MODEL] = asked or model
        async with request.app[keys.POOL].lease(model) as lease:
            require(route, Offer.of_plan(lease.plan))  # the manifest may have changed since `_choose`
            call = _call(route, request, intake, lease.plan, slot)
            async with exchange(request.app[keys.SESSION], lease, call) as answer:
                wants_done = route.capability in _DONE_TERMINATED
                return await relay(request, answer, Manners(model=asked, wants_done=wants_done))


async def _choose(app: web.Application, route: Route, asked: str | None) -> str:
    """The canonical id of the model that is to answer, once it is known to be of the right kind."""
    pool = app[keys.POOL]
    if asked is None:
        status = _last_used(pool.statuses(), route.capability)
        if status is None:
            raise MalformedRequestError("No model loaded and no model specified in request")
        model = status.model
    else:
        servable = await app[keys.INVENTORY].lookup(asked)
        model = servable.entry.id
        status = pool.status(model)
    if status is not None and status.state is InstanceState.READY and status.plan is not None:
        require(route, Offer.of_plan(status.plan))
    elif asked is not None and servable.manifest is not None:
        require(route, _offer_of(servable.manifest, servable.mode, app[keys.INVENTORY].facts))
    return model


def _last_used(statuses: list[InstanceStatus], capability: Capability) -> InstanceStatus | None:
    """The running model that was used last, of those that have the capability if any does."""
    ready = [status for status in statuses if status.state is InstanceState.READY and status.plan]
    return max(
        ready,
        key=lambda status: (capability in status.plan.capabilities, status.last_used_at or 0.0),
        default=None,
    )


def _offer_of(manifest: Manifest, mode: Mode | None, facts: HostFacts) -> Offer:
    """What the manifest says that the model could do here; a host without a block fails later, at the load."""
    with suppress(PlatformNotSupportedError):
        device = device_of(select_block(manifest, facts, None).accelerator)
        return Offer(mode=mode, capabilities=frozenset(manifest.capabilities), device=device)
    return Offer(mode=mode, capabilities=frozenset(manifest.capabilities), device=facts.os.value)


def device_of(a: Accelerator) -> str:
    return a.value if a in {Accelerator.CPU, Accelerator.NPU} else "gpu"


def _call(route: Route, request: web.Request, intake: Intake, plan: LaunchPlan, slot: str | None) -> Call:
    headers = to_engine(request.headers)
    if isinstance(intake, Upload):
        headers["Content-Length"] = str(intake.size)
    elif isinstance(intake, JsonBody) and not is_json(headers):
        headers["Content-Type"] = "application/json"  # it is, whatever curl's default says
    target = engine_target(
        route, plan.engine_paths.get(route.capability), slot, request.rel_url.raw_query_string
    )
    method = request.method
    return Call(method=method, target=target, headers=headers, body=payload_for(intake, plan.model))
