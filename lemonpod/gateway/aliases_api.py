"""Further names for models, for whoever administers the server."""

from __future__ import annotations

from aiohttp import web

from lemonpod.errors import ConfigError, MalformedRequestError
from lemonpod.gateway import keys
from lemonpod.gateway.control_body import object_of
from lemonpod.inventory.inventory import Inventory


async def list_aliases(request: web.Request) -> web.Response:
    """Every alias with what it stands for, which need not be there (yet)."""
    inventory = request.app[keys.INVENTORY]
    aliases = [await _described(inventory, *item) for item in inventory.models.aliases.items()]
    return web.json_response({"aliases": aliases})


async def add(request: web.Request) -> web.Response:
    """Let a name stand for a model, in the place of what it stood for before."""
    body = await object_of(request)
    alias, target = body.get("alias"), body.get("target", body.get("model"))
    if not isinstance(alias, str) or not isinstance(target, str) or not target:
        raise MalformedRequestError("'alias' and 'target' are required, both the names of models")
    try:
        await request.app[keys.INVENTORY].add_alias(alias, target)
    except ConfigError as error:
        raise MalformedRequestError(str(error)) from error
    return web.json_response({"status": "ok", "alias": alias, "target": target})


async def remove(request: web.Request) -> web.Response:
    """Forget an alias."""
    alias = request.match_info["alias"]
    if not await request.app[keys.INVENTORY].remove_alias(alias):
        return web.json_response({"error": f"there is no alias '{alias}'"}, status=404)
    return web.json_response({"status": "deleted"})


async def _described(inventory: Inventory, alias: str, target: str) -> dict[str, object]:
    entry = inventory.models.find(target)
    item: dict[str, object] = {"alias": alias, "target": target, "downloaded": False, "recipe": None}
    if entry is not None:
        availability = await inventory.availability(inventory.find(entry.id))
        item |= {"downloaded": not availability.missing, "recipe": entry.recipe}
    return item
