"""`/params`, `/log-level` and `/internal/config`: the settings of this server, and changing them."""

from __future__ import annotations

from aiohttp import web

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway import keys
from lemonpod.gateway.control_body import object_of


async def get_params(request: web.Request) -> web.Response:
    """Every setting."""
    return web.json_response(request.app[keys.PARAMS].values())


async def get_defaults(request: web.Request) -> web.Response:
    """Every setting as it would be if nobody had set any."""
    return web.json_response(request.app[keys.PARAMS].defaults())


async def set_params(request: web.Request) -> web.Response:
    """Change settings; nothing of it is written to a file."""
    updated = request.app[keys.PARAMS].change(await object_of(request))
    return web.json_response({"status": "success", "updated": updated})


async def keep_params(request: web.Request) -> web.Response:
    """Change settings for good; `message` says which of them work only after a restart."""
    kept = await request.app[keys.PARAMS].keep(await object_of(request))
    told = {"status": "success", "updated": kept.updated}
    return web.json_response(told if kept.message is None else {**told, "message": kept.message})


async def set_log_level(request: web.Request) -> web.Response:
    """Log more, or less."""
    level = (await object_of(request)).get("level")
    if not isinstance(level, str):
        raise MalformedRequestError("'level' parameter is required")
    request.app[keys.PARAMS].change({"log_level": level})
    return web.json_response({"status": "success", "level": level})
