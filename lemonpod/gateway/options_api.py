"""A model's options, apart from loading it: what is saved, what holds, and what would without it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.engine.stay import stay_of
from lemonpod.errors import LaunchError, MalformedRequestError
from lemonpod.gateway import keys
from lemonpod.gateway.control_body import flag, object_of
from lemonpod.inventory.inventory import Inventory
from lemonpod.inventory.servable import Servable
from lemonpod.launch.bases.words import known_options
from lemonpod.launch.options import CTX_SIZE

_NO_OPTIONS: Final = frozenset({"dry_run", "model", "model_name"})
_OF_A_LOAD: Final = "pinned"
"""Set by a load or by /internal/pin."""


async def get_options(request: web.Request) -> web.Response:
    """The options of a model in their layers."""
    servable = await _servable(request)
    return web.json_response(await _told(request.app[keys.INVENTORY], servable))


async def save_options(request: web.Request) -> web.Response:
    """Save options; a null takes one back. With `dry_run` only tell what would hold."""
    inventory = request.app[keys.INVENTORY]
    servable = await _servable(request)
    body = await object_of(request)
    options = {name: value for name, value in body.items() if name not in _NO_OPTIONS}
    if _OF_A_LOAD in options:
        raise MalformedRequestError(f"'{_OF_A_LOAD}' is an option of a load, not of the model")
    check_options(servable, options)
    merged = {**servable.entry.saved_options, **options}
    after = {name: value for name, value in merged.items() if value is not None}
    try:
        told = await _told(inventory, servable, after)
        stay_of(told["effective"])
    except LaunchError as error:
        raise MalformedRequestError(str(error)) from error
    if not flag(body, "dry_run"):
        await inventory.save_options(servable.entry.id, options)
        told["saved"] = after
    return web.json_response(told)


async def reset_options(request: web.Request) -> web.Response:
    """Forget everything that is saved for a model."""
    inventory = request.app[keys.INVENTORY]
    servable = await _servable(request)
    await inventory.reset_options(servable.entry.id)
    return web.json_response(await _told(inventory, inventory.find(servable.entry.id)))


def check_options(servable: Servable, options: Mapping[str, JsonValue]) -> None:
    """Raise MalformedRequestError for an option that the model's recipe does not know."""
    if servable.manifest is None:
        return  # the load tells what is wrong
    accepted = known_options(servable.manifest)
    if unknown := sorted(options.keys() - accepted):
        raise MalformedRequestError(
            f"recipe '{servable.entry.recipe}' has no option '{unknown[0]}'",
            hint=f"it takes: {', '.join(sorted(accepted))}",
        )


async def _servable(request: web.Request) -> Servable:
    name = request.match_info["id"]
    request[keys.REQUESTED_MODEL] = name
    return await request.app[keys.INVENTORY].lookup(name)


async def _told(
    inventory: Inventory, servable: Servable, saved: Mapping[str, JsonValue] | None = None
) -> dict[str, Any]:
    effective = await asyncio.to_thread(
        inventory.options, servable, servable.entry.saved_options if saved is None else saved
    )
    defaults = await asyncio.to_thread(inventory.options, servable, {})
    name = servable.entry.id
    body = {option: found.value for option, found in effective.values.items() if option != _OF_A_LOAD}
    return {
        "model_name": name,
        "recipe": servable.entry.recipe,
        "saved": dict(servable.entry.saved_options),
        "effective": {**body, "model_name": name},
        "defaults": {
            **{option: found.value for option, found in defaults.values.items() if option != _OF_A_LOAD},
            "model_name": name,
        },
        "resolved_ctx_size": body.get(CTX_SIZE),
    }
