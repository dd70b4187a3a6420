"""`/internal/engines`: what runs each engine and what it uses, for people who look after the machine."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from lemonpod.engine.api import EngineStats, InstanceState, InstanceStatus
from lemonpod.engine.pool import Pool
from lemonpod.errors import EngineError, ModelNotLoadedError
from lemonpod.gateway import keys
from lemonpod.gateway.load_stream import progress_json
from lemonpod.launch.plan import ContainerLaunch, LaunchPlan


async def list_engines(request: web.Request) -> web.Response:
    """Every engine that is there, with what it uses of processor and memory."""
    pool = request.app[keys.POOL]
    statuses = [status for status in pool.statuses() if status.state is not InstanceState.STOPPED]
    usage = await asyncio.gather(*(_usage(pool, status) for status in statuses))
    return web.json_response({"engines": [_item(*pair) for pair in zip(statuses, usage, strict=True)]})


async def _usage(pool: Pool, status: InstanceStatus) -> EngineStats:
    try:
        return await pool.stats(status.model)
    except (EngineError, ModelNotLoadedError):  # its runtime does not answer, or it has just ended
        return EngineStats()


def _item(status: InstanceStatus, usage: EngineStats) -> dict[str, Any]:
    plan = status.plan
    return {
        "model_name": status.model,
        "recipe": plan.recipe if plan else None,
        "state": status.state,
        "driver": driver_of(plan) if plan else None,
        "by_cli": plan.by_cli if plan else None,
        "container": status.container,
        "pid": status.pid,
        "in_flight": status.in_flight,
        "queued_requests": status.waiting,
        "pinned": status.pinned,
        "progress": progress_json(status.progress),
        "trouble": status.trouble,
        "cpu_percent": usage.cpu_percent,
        "memory_bytes": usage.memory_bytes,
        "processes": usage.processes,
    }


def driver_of(plan: LaunchPlan) -> str:
    """Who runs the engine: `podman` or `docker` over its API, or this machine as a `process`."""
    return plan.spec.container.runtime if isinstance(plan.spec, ContainerLaunch) else "process"
