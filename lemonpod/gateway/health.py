"""Is the server there, what does it run, what has it done, and how busy is its machine."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from aiohttp import web

import lemonpod
from lemonpod.contract.vocabulary import Mode
from lemonpod.engine.api import InstanceState, InstanceStatus
from lemonpod.errors import ModelNotFoundError
from lemonpod.gateway import keys
from lemonpod.gateway.engines_api import driver_of
from lemonpod.gateway.load_stream import progress_json
from lemonpod.gateway.models_api import main_checkpoint
from lemonpod.host.usage import cpu_percent, cpu_time, gpu_use, memory_used
from lemonpod.inventory.inventory import Inventory
from lemonpod.launch.secrets import without_secrets

TYPES: Final = {
    Mode.CHAT: "llm",
    Mode.EMBEDDINGS: "embedding",
    Mode.RERANKING: "reranking",
    Mode.TRANSCRIPTION: "transcription",
    Mode.TTS: "tts",
    Mode.CLASSIFICATION: "classification",
    Mode.IMAGE: "image",
    Mode.AUDIO_GENERATION: "audio-generation",
    Mode.MODEL_3D: "mesh",
}
LIMITED: Final = ("llm", "embedding", "reranking", "transcription", "image", "tts", "classification")
_SAMPLE: Final = 0.1
"""Seconds over which the processors are watched."""
# Lemonade's words for (status, backend_health).
_STATES: Final = {
    InstanceState.STARTING: ("loading", "busy"),
    InstanceState.READY: ("ready", "ready"),
    InstanceState.DOWNSIZING: ("downsizing", "busy"),
    InstanceState.EVICTING: ("evicting", "busy"),
    InstanceState.STOPPING: ("evicting", "stopped"),
    InstanceState.FAILED: ("unloaded", "exited"),
    InstanceState.STOPPED: ("unloaded", "stopped"),
}
_IN_USE: Final = ("in_use", "busy")
_DOWNSIZED: Final = ("downsized", "ready")


async def live(request: web.Request) -> web.Response:
    """Whether the server answers at all."""
    return web.json_response({"status": "ok"})


async def health(request: web.Request) -> web.Response:
    """Every model that is loaded, and, apart from them, those that failed and why."""
    document = health_document(request.app)
    if request.transport is not None:
        # Lemonade's clients look here for `/realtime` and `/logs/stream`.
        document["websocket_port"] = request.transport.get_extra_info("sockname")[1]
    return web.json_response(document)


async def stats(request: web.Request) -> web.Response:
    """Counters since the start."""
    return web.json_response(request.app[keys.STATS].as_json())


async def system_stats(request: web.Request) -> web.Response:
    """How busy this machine is; null is unknown."""
    return web.json_response(await machine_usage())


async def machine_usage() -> dict[str, float | None]:
    """As `/system-stats` tells it."""
    before = cpu_time()
    await asyncio.sleep(_SAMPLE)
    gpu = gpu_use()
    return {
        "cpu_percent": cpu_percent(before, cpu_time()),
        "memory_gb": _gib(memory_used()),
        "gpu_percent": gpu.percent,
        "vram_gb": _gib(gpu.memory_bytes),
        "npu_percent": None,  # its driver would have to be asked
    }


def _gib(size: int | None) -> float | None:
    return None if size is None else round(size / (1 << 30), 2)


def health_document(app: web.Application) -> dict[str, Any]:
    """The body of `/health`."""
    statuses = [s for s in app[keys.POOL].statuses() if s.state is not InstanceState.STOPPED]
    loaded = [_item(app, status) for status in statuses if status.state is not InstanceState.FAILED]
    pinned = Counter(item["type"] for item in loaded if item["pinned"])
    latest = next((status for status in statuses if status.is_running), None)
    return {
        "status": "ok",
        "version": lemonpod.__version__,
        "telemetry": {"enabled": False},
        "model_loaded": latest.model if latest else None,
        "all_models_loaded": loaded,
        "failed_models": [_item(app, s) for s in statuses if s.state is InstanceState.FAILED],
        "max_models": dict.fromkeys(LIMITED, app[keys.POOL].max_loaded),
        "pinned_models": {kind: pinned[kind] for kind in LIMITED},
        "pinned_helper_models": dict.fromkeys(LIMITED, 0),
        "update_check_done": True,
    }


def _item(app: web.Application, status: InstanceStatus) -> dict[str, Any]:
    plan = status.plan
    state, condition = _STATES[status.state]
    if status.state is InstanceState.READY and status.in_flight:
        state, condition = _IN_USE
    elif status.state is InstanceState.READY and status.is_downsized:
        state, condition = _DOWNSIZED
    if status.reset_by_watchdog:
        condition = "watchdog_reset"
    return {
        "model_name": status.model,
        "checkpoint": _checkpoint(app[keys.INVENTORY], status.model),
        "type": TYPES[plan.mode] if plan and plan.mode else "llm",
        "residency_class": "standard",
        "slot_pool": plan.slot_policy if plan else None,
        "device": plan.device if plan else None,
        "backend_url": f"{plan.endpoint.url}/v1" if plan else None,
        "pid": None if status.state is InstanceState.FAILED else status.pid,
        "launch_command": without_secrets(plan.spec.argv) if plan else [],
        "status": state,
        "backend_alive": status.pid is not None and status.state is not InstanceState.FAILED,
        "backend_health": condition,
        "loaded": status.is_running,
        "watchdog_reset": status.reset_by_watchdog,
        "reason": status.failure,
        "driver": driver_of(plan) if plan else None,
        "by_cli": plan.by_cli if plan else None,
        "progress": progress_json(status.progress),
        "trouble": status.trouble,
        "retry_after": status.retry_after,
        "pinned": status.pinned,
        "recipe": plan.recipe if plan else None,
        "recipe_options": dict(plan.options) if plan else {},
        "is_busy": status.in_flight > 0,
        "queued_requests": status.waiting,
        "is_streaming": app[keys.STATS].streams[status.model] > 0,
        "last_use": int((status.last_used_at or 0.0) * 1000),
    }


def _checkpoint(inventory: Inventory, model: str) -> str:
    try:
        return main_checkpoint(inventory.find(model))
    except ModelNotFoundError:
        return ""  # unregistered while it was loaded
