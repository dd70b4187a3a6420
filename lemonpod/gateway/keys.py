"""Where handlers find the parts that the application was made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiohttp import web

from lemonpod.engine.journal import Journal
from lemonpod.engine.pool import Pool
from lemonpod.gateway.data.relay import Relay
from lemonpod.gateway.machine_api import Machine
from lemonpod.gateway.params import Params
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.gateway.stats import Stats
from lemonpod.inventory.inventory import Inventory
from lemonpod.pull.pulls import Pulls

SETTINGS: Final = web.AppKey("settings", GatewaySettings)
INVENTORY: Final = web.AppKey("inventory", Inventory)
MACHINE: Final = web.AppKey("machine", Machine)
POOL: Final = web.AppKey("pool", Pool)
PULLS: Final = web.AppKey("pulls", Pulls)
RELAY: Final = web.AppKey("relay", Relay)
"""What the data path is made of; its requests never come to an application."""
PARAMS: Final = web.AppKey("params", Params)
STATS: Final = web.AppKey("stats", Stats)
JOURNAL: Final = web.AppKey("journal", Journal)
VIEWERS: Final[web.AppKey[set[web.WebSocketResponse]]] = web.AppKey("viewers")
"""Who follows the journal."""
SHUTDOWN: Final[web.AppKey[Callable[[], None]]] = web.AppKey("shutdown")

# On a request, once it is known:
REQUESTED_MODEL: Final = web.RequestKey("requested_model", str)
"""The name that the client asked for."""
ORIGIN: Final = web.RequestKey("origin", str)
"""The web origin that was granted access."""
