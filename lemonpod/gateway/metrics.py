"""`/metrics`: Lemonade's families by their names, and `lemonpod_…` for what it does not count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from aiohttp import web

import lemonpod
from lemonpod.engine.api import InstanceState, InstanceStatus
from lemonpod.engine.tally import Starts
from lemonpod.errors import ModelNotFoundError
from lemonpod.gateway import keys
from lemonpod.gateway.exposition import CONTENT_TYPE, Family, Labels, exposition
from lemonpod.gateway.health import LIMITED, TYPES, machine_usage
from lemonpod.gateway.models_api import main_checkpoint
from lemonpod.gateway.stats import Stats
from lemonpod.gateway.tally import BOUNDS, Distribution, Tally
from lemonpod.inventory.inventory import Inventory

# By Lemonade's name: what it is called for people, and where it stands in a tally.
_LAST: Final[Mapping[str, tuple[str, Callable[[Tally], float | None]]]] = {
    "input_tokens": ("Input tokens of the last answer.", lambda tally: tally.last.input_tokens),
    "output_tokens": ("Output tokens of the last answer.", lambda tally: tally.last.output_tokens),
    "prompt_tokens": ("Prompt tokens of the last answer.", lambda tally: tally.last.input_tokens),
    "cache_tokens": ("Prompt tokens of the last answer that were cached.", lambda t: t.last.cached_tokens),
    "time_to_first_token_seconds": (
        "Until the first token of the last answer.",
        lambda t: t.last.first_token,
    ),
    "tokens_per_second": ("Speed of the last answer.", lambda tally: tally.last.speed),
}
_SUMS: Final[Mapping[str, tuple[str, Callable[[Tally], float]]]] = {
    "requests_total": ("Requests that the model's engine was asked.", lambda tally: tally.endings.total()),
    "input_tokens_total": ("Input tokens.", lambda tally: tally.input_tokens),
    "output_tokens_total": ("Output tokens.", lambda tally: tally.output_tokens),
    "prompt_tokens_total": ("Prompt tokens.", lambda tally: tally.input_tokens),
    "cache_tokens_total": ("Prompt tokens that were cached.", lambda tally: tally.cached_tokens),
}
_DURATIONS: Final[Mapping[str, tuple[str, Callable[[Tally], Distribution]]]] = {
    "request_seconds": ("From the head of a request to the end of its answer.", lambda tally: tally.whole),
    "first_token_seconds": ("From a request to the first words of its answer.", lambda t: t.first_token),
    "queue_seconds": ("Requests that waited until others had made room.", lambda tally: tally.queued),
    "load_seconds": ("Requests that waited until the model was ready.", lambda tally: tally.loaded),
}
_STARTS: Final[Mapping[str, tuple[str, Callable[[Starts], int]]]] = {
    "loads_total": ("Engines that became ready.", lambda starts: starts.ready),
    "load_failures_total": ("Engines that never became ready.", lambda starts: starts.failed),
    "crashes_total": ("Engines that ended by themselves after that, or hung.", lambda starts: starts.crashed),
}
_USAGE: Final = {
    "cpu_percent": ("lemonade_cpu_usage_percent", "How busy the processors are."),
    "memory_gb": ("lemonade_memory_used_gb", "Memory in use, in GiB."),
    "gpu_percent": ("lemonade_gpu_usage_percent", "How busy the GPU is."),
    "vram_gb": ("lemonade_vram_used_gb", "The GPU's memory in use, in GiB."),
    "npu_percent": ("lemonade_npu_usage_percent", "How busy the NPU is."),
}


async def metrics(request: web.Request) -> web.Response:
    """Everything as it is at this moment."""
    app = request.app
    inventory, pool = app[keys.INVENTORY], app[keys.POOL]
    statuses = {status.model: status for status in pool.statuses()}
    tallies, starts = app[keys.RELAY].activities.tallies, pool.starts()
    models = {
        model: _labels(inventory, model, statuses.get(model))
        for model in sorted(statuses.keys() | tallies.keys() | starts.keys())
    }
    families = [
        *_of_the_server(app[keys.STATS], statuses.values(), pool.max_loaded, len(inventory.catalog.rejected)),
        *_of_models(models, statuses, tallies),
        *_of_engines(models, statuses, tallies, starts),
        *_of_the_machine(await machine_usage()),
    ]
    return web.Response(body=exposition(families).encode(), headers={"Content-Type": CONTENT_TYPE})


def _of_the_server(
    stats: Stats, statuses: Iterable[InstanceStatus], max_loaded: int, rejected: int
) -> Iterable[Family]:
    told: Mapping[str, Any] = stats.as_json()
    for kind, name, text, value in (
        ("gauge", "lemonade_server_up", "Whether the server runs.", 1),
        ("gauge", "lemonade_loaded_models", "Models that are loaded.", sum(map(_is_loaded, statuses))),
        ("counter", "lemonade_requests_total", "Requests for engines.", told["request_count_total"]),
        ("counter", "lemonade_input_tokens_total", "Input tokens.", told["input_tokens_total"]),
        ("counter", "lemonade_output_tokens_total", "Output tokens.", told["output_tokens_total"]),
        ("counter", "lemonade_prompt_tokens_total", "Prompt tokens.", told["prompt_tokens_total"]),
        ("gauge", "lemonpod_rejected_manifests", "Manifests that were refused.", rejected),
    ):
        family = Family(kind, name, text)
        family.add(value)
        yield family
    info = Family("gauge", "lemonade_server_info", "Which version it is.")
    info.add(1, {"version": lemonpod.__version__})
    limit = Family("gauge", "lemonade_max_loaded_models", "Models that may be loaded; -1: any number.")
    for kind in LIMITED:
        limit.add(max_loaded, {"type": kind})
    yield from (info, limit)


def _of_models(
    models: Mapping[str, Labels], statuses: Mapping[str, InstanceStatus], tallies: Mapping[str, Tally]
) -> Iterable[Family]:
    """Lemonade's, which label each value with all that is known of the model."""
    info = Family("gauge", "lemonade_model_info", "Models that were in use.")
    loaded = Family("gauge", "lemonade_model_loaded", "Whether the model is loaded.")
    for model, labels in models.items():
        info.add(1, labels)
        loaded.add(int(model in statuses and _is_loaded(statuses[model])), labels)
    yield from (info, loaded)
    for kind, table in (("gauge", _LAST), ("counter", _SUMS)):
        for name, (text, value) in table.items():
            family = Family(kind, f"lemonade_model_{name}", text)
            for model, tally in tallies.items():
                family.add(value(tally), models[model])
            yield family


def _of_engines(
    models: Mapping[str, Labels],
    statuses: Mapping[str, InstanceStatus],
    tallies: Mapping[str, Tally],
    starts: Mapping[str, Starts],
) -> Iterable[Family]:
    """Ours, which name the model only."""
    names = {model: {"model_name": model} for model in models}
    state = Family("gauge", "lemonpod_model_state", "1 for the state that the model's engine is in.")
    busy = Family("gauge", "lemonpod_requests_in_flight", "Requests that the engine answers now.")
    waiting = Family("gauge", "lemonpod_requests_queued", "Requests that wait until it is ready.")
    for model, status in statuses.items():
        state.add(1, {**names[model], "state": status.state.value})
        busy.add(status.in_flight, names[model])
        waiting.add(status.waiting, names[model])
    endings = Family("counter", "lemonpod_requests_total", "Requests by how they ended.")
    for model, tally in tallies.items():
        for ending, count in sorted(tally.endings.items()):
            endings.add(count, {**names[model], "ending": ending})
    yield from (state, busy, waiting, endings)
    for name, (text, distribution) in _DURATIONS.items():
        family = Family("histogram", f"lemonpod_{name}", text)
        for model, tally in tallies.items():
            found = distribution(tally)
            family.add_histogram(BOUNDS, found.counts, found.total, names[model])
        yield family
    for name, (text, count_of) in _STARTS.items():
        family = Family("counter", f"lemonpod_{name}", text)
        for model, of_model in starts.items():
            family.add(count_of(of_model), names[model])
        yield family


def _of_the_machine(usage: Mapping[str, float | None]) -> Iterable[Family]:
    for member, (name, text) in _USAGE.items():
        family = Family("gauge", name, text)
        family.add(usage[member])
        yield family


def _is_loaded(status: InstanceStatus) -> bool:
    return status.state not in (InstanceState.STOPPED, InstanceState.FAILED)


def _labels(inventory: Inventory, model: str, status: InstanceStatus | None) -> Labels:
    plan = status.plan if status else None
    try:
        servable = inventory.find(model)
    except ModelNotFoundError:  # unregistered since it was used
        servable = None
    mode = plan.mode if plan else servable.mode if servable else None
    return {
        "model_name": model,
        "checkpoint": main_checkpoint(servable) if servable else "",
        "type": TYPES[mode] if mode else "llm",
        "device": plan.device if plan else "",
        "recipe": plan.recipe if plan else servable.entry.recipe if servable else "",
    }
