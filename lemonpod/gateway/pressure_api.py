"""What would happen if memory were full: for trying out which model would make room."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from lemonpod.engine.stay import Step
from lemonpod.errors import MalformedRequestError
from lemonpod.gateway import keys
from lemonpod.gateway.control_body import object_of

_IDLENESS: Final = -1
"""Lemonade's way to have it look after idleness alone, which is done here without being asked for."""
_ACTIONS: Final = {Step.DOWNSIZE: "downsize", Step.UNLOAD: "evict"}


async def simulate(request: web.Request) -> web.Response:
    """Take one reading as given, for every memory, and begin what it leads to."""
    pct = (await object_of(request)).get("pct")
    if isinstance(pct, bool) or not isinstance(pct, int | float):
        raise MalformedRequestError("'pct' must be a number", hint="it is a share: 0.95 stands for 95 %")
    if not (0 <= pct <= 1 or pct == _IDLENESS):
        raise MalformedRequestError(
            f"'pct' must be between 0 and 1, not {pct}", hint="it is a share: 0.95 stands for 95 %"
        )
    relief = await request.app[keys.POOL].relieve(pct)
    return web.json_response(
        {
            "status": "ok",
            "action": relief and _ACTIONS[relief.step],
            "model_name": relief and relief.model,
        }
    )
