"""`/models`: what can be asked for, in the shape of OpenAI's list with Lemonade's additions."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.engine.pool import Pool
from lemonpod.gateway import keys
from lemonpod.inventory.inventory import Inventory
from lemonpod.inventory.servable import Servable

# Lemonade says so of every model; OpenAI's clients only want a number.
_CREATED: Final = 1234567890


async def list_models(request: web.Request) -> web.Response:
    """The models whose files are here; with `?show_all=true` all that are registered."""
    inventory = request.app[keys.INVENTORY]
    show_all = request.query.get("show_all", "").lower() in {"true", "1"}
    items = [
        await describe(inventory, request.app[keys.POOL], servable) for servable in inventory.servables()
    ]
    return web.json_response(
        {"object": "list", "data": [item for item in items if show_all or item["downloaded"]]}
    )


async def get_model(request: web.Request) -> web.Response:
    """One model, by any of its names; a slash in the name may come raw or as %2F."""
    inventory = request.app[keys.INVENTORY]
    servable = await inventory.lookup(request.match_info["id"])
    return web.json_response(await describe(inventory, request.app[keys.POOL], servable))


async def describe(inventory: Inventory, pool: Pool, servable: Servable) -> dict[str, Any]:
    """A model as the list shows it."""
    entry = servable.entry
    availability = await inventory.availability(servable)
    options = {**entry.recipe_options, **entry.saved_options}
    item: dict[str, Any] = {
        "id": entry.id,
        "object": "model",
        "created": _CREATED,
        "owned_by": "lemonade",
        "checkpoint": main_checkpoint(servable),
        "checkpoints": {name: ref.text for name, ref in entry.checkpoints.items()},
        "recipe": entry.recipe,
        "downloaded": not availability.missing,
        "update_available": False,
        "suggested": entry.suggested,
        "source": entry.source,
        "registry_source": None,
        "labels": list(entry.labels),
        "components": [],
        "recipe_options": options,
    }
    if entry.size_gb is not None:
        item["size"] = entry.size_gb
    status = pool.status(entry.id)
    loaded = status.plan.options.get("ctx_size") if status and status.plan else None
    if (length := _context(loaded) or _context(options.get("ctx_size"))) is not None:
        item["context_length"] = length
    return item


def main_checkpoint(servable: Servable) -> str:
    """The checkpoint that stands for the model; empty where it has none."""
    main = servable.entry.checkpoints.get("main")
    return main.text if main else ""


def _context(value: JsonValue | object) -> int | None:
    """A context size, unless it is one of the values that stand for "not said"."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
