"""The application: the control routes with their handlers, and the data path beside it."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from lemonpod.contract.vocabulary import Body
from lemonpod.engine.journal import Journal
from lemonpod.engine.pool import Pool
from lemonpod.gateway import (
    admin,
    aliases_api,
    cleanup_api,
    health,
    keys,
    left_out,
    metrics,
    middlewares,
    models_api,
    ollama_api,
    options_api,
    params_api,
    pressure_api,
    pull_api,
    registry_api,
)
from lemonpod.gateway.data.relay import Relay
from lemonpod.gateway.engines_api import list_engines
from lemonpod.gateway.logs_stream import dismiss_viewers, stream_logs
from lemonpod.gateway.machine_api import Machine
from lemonpod.gateway.page import page
from lemonpod.gateway.params import Params
from lemonpod.gateway.routes import LOGS, PREFIXES, ROUTES, SOCKET_PREFIXES
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.gateway.stats import Stats
from lemonpod.gateway.system_api import system_info
from lemonpod.gateway.translate.endpoints import ENDPOINTS
from lemonpod.inventory.inventory import Inventory
from lemonpod.pull.pulls import Pulls


def make_app(
    inventory: Inventory,
    pool: Pool,
    pulls: Pulls,
    settings: GatewaySettings,
    *,
    shutdown: Callable[[], None],
    params: Params,
    journal: Journal | None = None,
) -> web.Application:
    """The gateway in front of a pool; `shutdown` asks whoever runs the server to end it.

    `params` are the settings that clients may see and change.
    """
    app = web.Application(
        middlewares=[
            middlewares.answer_errors,
            middlewares.check_origin,
            middlewares.check_key,
            middlewares.know_what_is_there,
        ]
    )
    app[keys.SETTINGS] = settings
    app[keys.INVENTORY] = inventory
    app[keys.MACHINE] = Machine(inventory.facts)
    app[keys.POOL] = pool
    app[keys.PARAMS] = params
    app[keys.PULLS] = pulls
    app[keys.STATS] = Stats()
    app[keys.RELAY] = Relay(inventory, pool, settings, app[keys.STATS])
    app[keys.JOURNAL] = journal or Journal()
    app[keys.VIEWERS] = set()
    app[keys.SHUTDOWN] = shutdown
    app.on_shutdown.append(dismiss_viewers)
    app.on_response_prepare.append(middlewares.say_origin)
    app.on_response_prepare.append(middlewares.say_server)
    add_routes(app.router)
    return app


def add_routes(router: web.UrlDispatcher) -> None:
    """Every path that there is."""
    for path in ("/", "/status"):
        router.add_get(path, page)
    router.add_get("/live", health.live)
    router.add_get("/metrics", metrics.metrics)
    router.add_get("/internal/engines", list_engines)
    router.add_get("/internal/logs", admin.logs)
    router.add_get("/internal/activity", admin.activity)
    router.add_post("/internal/pin", admin.pin)
    router.add_post("/internal/shutdown", admin.shutdown)
    router.add_post("/internal/simulate-vram-pressure", pressure_api.simulate)
    router.add_post("/internal/set", params_api.keep_params)
    router.add_get("/internal/config", params_api.get_params)
    router.add_get("/internal/config/defaults", params_api.get_defaults)
    router.add_post("/internal/cleanup-cache", cleanup_api.clean)
    router.add_get("/internal/aliases", aliases_api.list_aliases)
    router.add_post("/internal/aliases", aliases_api.add)
    router.add_delete("/internal/aliases/{alias:.+}", aliases_api.remove)
    for prefix in PREFIXES:
        _add_api(router, prefix)
    for path in ENDPOINTS:
        router.add_post(path, _of_the_data_path)
    ollama_api.add_routes(router)
    left_out.add_routes(router)
    for prefix in SOCKET_PREFIXES:
        router.add_get(prefix + LOGS, stream_logs)
    for route in ROUTES:
        if route.spec.body is Body.SOCKET:
            router.add_get(route.spec.path, _of_the_data_path)


def _add_api(router: web.UrlDispatcher, prefix: str) -> None:
    router.add_get(f"{prefix}/health", health.health)
    router.add_get(f"{prefix}/stats", health.stats)
    router.add_get(f"{prefix}/system-info", system_info)
    router.add_get(f"{prefix}/system-stats", health.system_stats)
    router.add_get(f"{prefix}/params", params_api.get_params)
    router.add_post(f"{prefix}/params", params_api.set_params)
    router.add_post(f"{prefix}/log-level", params_api.set_log_level)
    router.add_get(f"{prefix}/models", models_api.list_models)
    router.add_post(f"{prefix}/models/register", pull_api.register)
    router.add_post(f"{prefix}/models/check-updates", registry_api.check_updates)
    for path in ("register", "check-updates"):
        router.add_get(f"{prefix}/models/{path}", _only_post)
    router.add_get(f"{prefix}/models/{{id:.+}}/files", models_api.list_files)
    router.add_get(f"{prefix}/models/{{id:.+}}/options", options_api.get_options)
    router.add_post(f"{prefix}/models/{{id:.+}}/options", options_api.save_options)
    router.add_delete(f"{prefix}/models/{{id:.+}}/options", options_api.reset_options)
    router.add_get(f"{prefix}/models/{{id:.+}}", models_api.get_model)
    router.add_post(f"{prefix}/pull", pull_api.pull)
    router.add_get(f"{prefix}/registry/search", registry_api.search)
    router.add_get(f"{prefix}/pull/variants", pull_api.list_variants)
    router.add_get(f"{prefix}/downloads", pull_api.downloads)
    router.add_post(f"{prefix}/downloads/control", pull_api.control_download)
    router.add_post(f"{prefix}/delete", pull_api.delete)
    router.add_post(f"{prefix}/load", admin.load)
    router.add_post(f"{prefix}/unload", admin.unload)
    for route in ROUTES:
        if route.spec.method == "GET":
            router.add_get(prefix + route.spec.path, _of_the_data_path)
        else:
            router.add_route(route.spec.method, prefix + route.spec.path, _of_the_data_path)


async def _of_the_data_path(request: web.Request) -> web.StreamResponse:
    """Never asked: the path is known here so that another method is answered with the right one."""
    raise web.HTTPNotFound


async def _only_post(request: web.Request) -> web.StreamResponse:
    """For a path that would else be taken for the name of a model."""
    raise web.HTTPMethodNotAllowed(request.method, {"POST"})
