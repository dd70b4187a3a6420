"""`/models`: what can be asked for, in the shape of OpenAI's list with Lemonade's additions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.gateway import keys
from lemonpod.inventory.inventory import Inventory
from lemonpod.inventory.servable import Availability, Servable
from lemonpod.launch.options import CTX_SIZE
from lemonpod.models.entry import MAIN, Origin
from lemonpod.models.gguf import Header, read_header
from lemonpod.models.variants import GGUF, shards

# Lemonade says so of every model; OpenAI's clients only want a number.
_CREATED: Final = 1234567890
_REGISTRIES: Final = {Origin.HUB: "huggingface", Origin.MODELSCOPE: "modelscope"}


async def list_models(request: web.Request) -> web.Response:
    """The models whose files are here; with `?show_all=true` all that there are. Aliases follow."""
    inventory = request.app[keys.INVENTORY]
    show_all = request.query.get("show_all", "").lower() in {"true", "1"}
    items = {servable.entry.id: await describe(request.app, servable) for servable in inventory.servables()}
    models = inventory.models
    aliases = [
        {**items[entry.id], "id": alias}
        for alias in models.aliases
        if (entry := models.find(alias)) and models.is_alias(alias)
    ]
    shown = [item for item in [*items.values(), *aliases] if show_all or item["downloaded"]]
    return web.json_response({"object": "list", "data": shown})


async def get_model(request: web.Request) -> web.Response:
    """One model, by any of its names; a slash in the name may come raw or as %2F."""
    inventory = request.app[keys.INVENTORY]
    name = request.match_info["id"]
    servable = await inventory.lookup(name)
    item = await describe(request.app, servable)
    return web.json_response({**item, "id": name} if inventory.models.is_alias(name) else item)


async def list_files(request: web.Request) -> web.Response:
    """A model's files; where they are only with `?include_paths=true`, for paths tell of users."""
    inventory = request.app[keys.INVENTORY]
    servable = await inventory.lookup(request.match_info["id"])
    paths = request.query.get("include_paths", "").lower() in {"true", "1"}
    availability = await inventory.availability(servable)
    files = await asyncio.to_thread(_files, availability, paths=paths)
    return web.json_response({"model_id": servable.entry.id, "files": files})


async def describe(app: web.Application, servable: Servable) -> dict[str, Any]:
    """A model as the list shows it."""
    entry = servable.entry
    availability, header = await asyncio.to_thread(_look, app[keys.INVENTORY], servable)
    options = {**entry.recipe_options, **entry.saved_options}
    main = entry.checkpoints.get(MAIN)
    item: dict[str, Any] = {
        "id": entry.id,
        "object": "model",
        "created": _CREATED,
        "owned_by": "lemonade",
        "checkpoint": main_checkpoint(servable),
        "checkpoints": {name: ref.text for name, ref in entry.checkpoints.items()},
        "recipe": entry.recipe,
        "downloaded": not availability.missing,
        "update_available": entry.id in app[keys.PULLS].outdated,
        "suggested": entry.suggested,
        "source": entry.source,
        "registry_source": _REGISTRIES.get(main.origin) if main else None,
        "labels": list(entry.labels),
        "components": [],
        "recipe_options": options,
    }
    if entry.size_gb is not None:
        item["size"] = entry.size_gb
    if header is not None and header.context_length is not None:
        item["max_context_window"] = header.context_length
    status = app[keys.POOL].status(entry.id)
    loaded = status.plan.options.get(CTX_SIZE) if status and status.plan else None
    said = (loaded, options.get(CTX_SIZE), app[keys.INVENTORY].configured(CTX_SIZE))
    if (length := next(filter(None, map(_context, said)), None)) is not None:
        item["context_length"] = length
    return item


def main_checkpoint(servable: Servable) -> str:
    """The checkpoint that stands for the model; empty where it has none."""
    main = servable.entry.checkpoints.get(MAIN)
    return main.text if main else ""


def _look(inventory: Inventory, servable: Servable) -> tuple[Availability, Header | None]:
    """Where the model's files are, and what the first of them says of itself."""
    availability = inventory.look_for_files(servable)
    main = availability.files.get(MAIN)
    if main is None or main.path is None or main.path.suffix.casefold() != GGUF:
        return availability, None
    with suppress(OSError):
        return availability, read_header(main.path)
    return availability, None


def _files(availability: Availability, *, paths: bool) -> list[dict[str, Any]]:
    found = []
    for role, file in availability.files.items():
        named = [file.path] if file.path is None else [file.path.with_name(n) for n in shards(file.path.name)]
        for path in named:
            size = 0 if path is None else _size(path)
            item = {
                "name": file.ref.text.rpartition("/")[2] if path is None else path.name,
                "role": role,
                "size_bytes": size,
                "exists": path is not None,
            }
            found.append({**item, "path": None if path is None else str(path)} if paths else item)
    return found


def _size(path: Path) -> int:
    """Of a file, or of all in a folder; what goes away meanwhile has none."""
    files = path.rglob("*") if path.is_dir() else [path]
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def _context(value: JsonValue | object) -> int | None:
    """A context size, unless it is one of the values that stand for "not said"."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
