"""What Ollama's clients ask about models: `/api/tags`, `ps`, `show`, `version`, `pull` and `delete`."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from aiohttp import web

from lemonpod.contract.vocabulary import Accelerator, Capability
from lemonpod.errors import ModelNotFoundError
from lemonpod.gateway import keys
from lemonpod.gateway.control_body import object_of
from lemonpod.gateway.errors import message_of
from lemonpod.gateway.fetching import Wish, fetching
from lemonpod.gateway.left_out import LEFT_OUT, refused
from lemonpod.gateway.load_stream import Words, stream_work
from lemonpod.gateway.pull_api import delete_model
from lemonpod.gateway.translate.given import Given
from lemonpod.inventory.inventory import Inventory
from lemonpod.inventory.servable import Servable
from lemonpod.models.names import LATEST
from lemonpod.pull.pulls import PullProgress

_VERSION: Final = "0.12.0"
"""Whose API this is; clients refuse older ones."""
_FOREVER: Final = "9999-12-31T23:59:59Z"
"""What a model's stay ends with is up to the server, not to a time."""
_LABELLED: Final = {"tool-calling": "tools", "vision": "vision", "reasoning": "thinking"}
_CAPABILITIES: Final = {
    Capability.CHAT_COMPLETION: "completion",
    Capability.COMPLETION: "completion",
    Capability.EMBEDDINGS: "embedding",
}
_SUCCESS: Final = {"status": "success"}
_GIGABYTE: Final = 10**9


class _OnDisk(NamedTuple):
    """A model's files: is none missing, how many bytes they have, and when the newest was written."""

    complete: bool
    size: int
    modified: float


def add_routes(router: web.UrlDispatcher) -> None:
    """Ollama's paths that no engine answers."""
    router.add_get("/api/version", version)
    router.add_get("/api/tags", tags)
    router.add_get("/api/ps", running)
    router.add_post("/api/show", show)
    router.add_post("/api/pull", pull)
    for method in ("DELETE", "POST"):
        router.add_route(method, "/api/delete", delete)
    for item in LEFT_OUT:
        if item.is_ollamas:
            router.add_post(item.path, refused(item))


async def version(request: web.Request) -> web.Response:
    """The version of Ollama whose API this is."""
    return web.json_response({"version": _VERSION})


async def tags(request: web.Request) -> web.Response:
    """The models whose files are here."""
    inventory = request.app[keys.INVENTORY]
    found = [(servable, await _on_disk(inventory, servable)) for servable in inventory.servables()]
    return web.json_response({"models": [_model(*pair) for pair in found if pair[1].complete]})


async def running(request: web.Request) -> web.Response:
    """The models that are loaded."""
    inventory, models = request.app[keys.INVENTORY], []
    for status in request.app[keys.POOL].statuses():
        if not status.is_running or status.plan is None:
            continue
        try:
            servable = inventory.find(status.model)
        except ModelNotFoundError:
            continue  # unregistered while it was loaded
        model = _model(servable, await _on_disk(inventory, servable))
        model |= {
            "expires_at": _FOREVER,
            # How much of it is where only the engine knows.
            "size_vram": 0 if status.plan.device == Accelerator.CPU else model["size"],
            "context_length": status.plan.options.get("ctx_size") or 0,
        }
        models.append(model)
    return web.json_response({"models": models})


async def show(request: web.Request) -> web.Response:
    """One model: what it can do, and the options of its load."""
    given, inventory = Given(await object_of(request)), request.app[keys.INVENTORY]
    servable = await inventory.lookup(_named(given))
    options = {**servable.entry.recipe_options, **servable.entry.saved_options}
    return web.json_response(
        {
            "modelfile": "",
            "parameters": "\n".join(f"{key} {json.dumps(value)}" for key, value in options.items()),
            "template": "",
            "details": _details(servable),
            "model_info": {"general.name": servable.entry.id},
            "capabilities": _capabilities(servable),
            "modified_at": _time((await _on_disk(inventory, servable)).modified),
        }
    )


async def pull(request: web.Request) -> web.StreamResponse:
    """Fetch what is missing of a registered model, and tell of it line by line unless `stream` is false."""
    given, inventory = Given(await object_of(request)), request.app[keys.INVENTORY]
    wish = Wish(await inventory.lookup(_named(given)))
    wanted = await fetching(inventory, request.app[keys.PULLS], wish)

    async def pulled() -> dict[str, Any]:
        await wanted.finish()
        return _SUCCESS

    if given.flag("stream") is False:
        return web.json_response(await pulled())
    return await stream_work(
        request, pulled(), lambda: _progress(wanted.progress), model=wish.model, words=_LINES
    )


async def delete(request: web.Request) -> web.Response:
    """Forget a model and remove what of its files is its alone."""
    await delete_model(request.app, _named(Given(await object_of(request))))
    return web.Response()


def _named(given: Given) -> str:
    """The model; older clients call it `name`."""
    return given.text("model") or given.need_text("name")


def _progress(progress: PullProgress) -> dict[str, Any]:
    if not progress.file:
        return {"status": "pulling manifest"}
    # Clients cut the digest, and draw a bar for each.
    digest = hashlib.sha256(progress.file.encode("utf-8", "surrogateescape")).hexdigest()
    return {
        "status": f"pulling {progress.file}",
        "digest": f"sha256:{digest}",
        "total": progress.bytes_total,
        "completed": progress.bytes_downloaded,
    }


def _line(name: str, data: Mapping[str, Any]) -> bytes:
    told = {"error": message_of(dict(data))} if name == "error" else data
    return json.dumps(told).encode() + b"\n"


_LINES: Final = Words("application/x-ndjson", _line)


async def _on_disk(inventory: Inventory, servable: Servable) -> _OnDisk:
    return await asyncio.to_thread(_look, inventory, servable)


def _look(inventory: Inventory, servable: Servable) -> _OnDisk:
    availability = inventory.look_for_files(servable)
    size, modified = 0, 0.0
    for file in availability.files.values():
        try:
            facts = file.path.stat() if file.path else None
        except OSError:
            continue  # gone since it was found
        if facts:
            size, modified = size + facts.st_size, max(modified, facts.st_mtime)
    if not size:
        size = int((servable.entry.size_gb or 0) * _GIGABYTE)
    return _OnDisk(not availability.missing, size, modified)


def _model(servable: Servable, files: _OnDisk) -> dict[str, Any]:
    entry = servable.entry
    # Clients add the tag to a name that has none, and look for it in this list.
    name = entry.id if ":" in entry.id else entry.id + LATEST
    checkpoints = {role: ref.text for role, ref in entry.checkpoints.items()}
    identity = json.dumps([entry.id, entry.recipe, checkpoints], sort_keys=True)
    return {
        "name": name,
        "model": name,
        "modified_at": _time(files.modified),
        "size": files.size,
        "digest": hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest(),
        "details": _details(servable),
    }


def _details(servable: Servable) -> dict[str, Any]:
    """The name of its family is the recipe's: clients group models by it."""
    files = [ref.text.casefold() for ref in servable.entry.checkpoints.values()]
    recipe = servable.entry.recipe
    return {
        "parent_model": "",
        "format": "gguf" if any("gguf" in name for name in files) else "",
        "family": recipe,
        "families": [recipe],
        "parameter_size": "",
        "quantization_level": "",
    }


def _capabilities(servable: Servable) -> list[str]:
    """In Ollama's words."""
    declared = servable.manifest.capabilities if servable.manifest else ()
    words = [word for capability, word in _CAPABILITIES.items() if capability in declared]
    words += [word for label, word in _LABELLED.items() if label in servable.entry.labels]
    return list(dict.fromkeys(words))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
