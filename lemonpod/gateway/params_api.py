"""`/params` and `/log-level`: the settings of this server, and those that can change while it runs."""

from __future__ import annotations

from aiohttp import web

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway import keys
from lemonpod.gateway.control_body import object_of


async def get_params(request: web.Request) -> web.Response:
    """Every setting."""
    return web.json_response(request.app[keys.PARAMS].values)


async def set_params(request: web.Request) -> web.Response:
    """Change settings; nothing of it is written to a file."""
    changes = await object_of(request)
    request.app[keys.PARAMS].change(changes)
    return web.json_response({"status": "success", "updated": dict(changes)})


async def set_log_level(request: web.Request) -> web.Response:
    """Log more, or less."""
    level = (await object_of(request)).get("level")
    if not isinstance(level, str):
        raise MalformedRequestError("'level' parameter is required")
    request.app[keys.PARAMS].change({"log_level": level})
    return web.json_response({"status": "success", "level": level})
