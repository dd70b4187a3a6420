"""The application: which handler answers which path, and what every request passes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Handler

from lemonpod.engine.pool import Pool
from lemonpod.gateway import admin, health, keys, models_api
from lemonpod.gateway.auth import check_key
from lemonpod.gateway.cors import check_origin, say_origin
from lemonpod.gateway.dispatch import serve
from lemonpod.gateway.engines_api import list_engines
from lemonpod.gateway.errors import answer_errors
from lemonpod.gateway.exchange import engine_session
from lemonpod.gateway.page import page
from lemonpod.gateway.routes import PREFIXES, ROUTES
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.gateway.stats import Stats
from lemonpod.gateway.system_api import system_info
from lemonpod.inventory.inventory import Inventory


def make_app(
    inventory: Inventory, pool: Pool, settings: GatewaySettings, *, shutdown: Callable[[], None]
) -> web.Application:
    """The gateway in front of a pool; `shutdown` asks whoever runs the server to end it."""
    app = web.Application(middlewares=[answer_errors, check_origin, check_key, _know_what_is_there])
    app[keys.SETTINGS] = settings
    app[keys.INVENTORY] = inventory
    app[keys.POOL] = pool
    app[keys.STATS] = Stats()
    app[keys.SHUTDOWN] = shutdown
    app.cleanup_ctx.append(_engine_session)
    app.on_response_prepare.append(say_origin)
    app.on_response_prepare.append(_say_server)
    app.router.add_get("/", page)
    app.router.add_get("/live", health.live)
    app.router.add_get("/internal/engines", list_engines)
    app.router.add_get("/internal/logs", admin.logs)
    app.router.add_post("/internal/shutdown", admin.shutdown)
    for prefix in PREFIXES:
        _add_api(app.router, prefix)
    return app


def _add_api(router: web.UrlDispatcher, prefix: str) -> None:
    router.add_get(f"{prefix}/health", health.health)
    router.add_get(f"{prefix}/stats", health.stats)
    router.add_get(f"{prefix}/system-info", system_info)
    router.add_get(f"{prefix}/models", models_api.list_models)
    router.add_get(f"{prefix}/models/{{id:.+}}", models_api.get_model)
    router.add_post(f"{prefix}/load", admin.load)
    router.add_post(f"{prefix}/unload", admin.unload)
    for route in ROUTES:
        handler = partial(serve, route)
        if route.spec.method == "GET":
            router.add_get(prefix + route.spec.path, handler)
        else:
            router.add_route(route.spec.method, prefix + route.spec.path, handler)


async def _engine_session(app: web.Application) -> AsyncIterator[None]:
    async with engine_session(app[keys.SETTINGS]) as app[keys.SESSION]:
        yield


@web.middleware
async def _know_what_is_there(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let requests that come before the first look at the disk wait for it; `/live` promises nothing."""
    if request.path != "/live":
        await request.app[keys.INVENTORY].ready()
    return await handler(request)


async def _say_server(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "lemonpod"  # the library's version is nobody's business
