"""What the hub has: repositories for a search, and newer files of models that are here."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from lemonpod.errors import HubBusyError, HubOfflineError, InvalidModelError, LemonpodError, ModelPullError
from lemonpod.gateway import keys
from lemonpod.gateway.errors import typed_envelope
from lemonpod.inventory.inventory import Inventory
from lemonpod.inventory.servable import fetched_checkpoints
from lemonpod.pull.repo import Found

_SOURCES: Final = frozenset({"huggingface", "hf"})
_SOURCE: Final = "huggingface"
_GGUF: Final = "gguf"
_SHORTEST: Final = 3
_LIMIT: Final = 12
_MOST: Final = 50


class _BadQueryError(Exception):
    """A parameter that means nothing."""


async def search(request: web.Request) -> web.Response:
    """Repositories whose names fit `query`, at most `limit`; with `format=gguf` those with such files."""
    try:
        query, limit, gguf = _wanted(request)
        found = await request.app[keys.PULLS].search(query, limit=limit, gguf=gguf)
    except _BadQueryError as error:
        return _refused(400, str(error), "invalid_request_error")
    except HubOfflineError as error:
        return _refused(400, str(error), "invalid_request_error", code=error.code)
    except HubBusyError as error:
        return _refused(429, str(error), "registry_error")
    except ModelPullError as error:
        return _refused(502, str(error), "registry_error")
    told: dict[str, Any] = {"source": _SOURCE, "query": query}
    if gguf:
        told["format"] = _GGUF
    return web.json_response({**told, "total": len(found), "results": list(map(_result, found))})


async def check_updates(request: web.Request) -> web.Response:
    """Ask the hub whether a pull of the models that are here would fetch anything newer."""
    inventory, pulls = request.app[keys.INVENTORY], request.app[keys.PULLS]
    if pulls.offline:
        return web.json_response({"error": "Cannot check model updates while offline=true"}, status=409)
    models = await _fetched(inventory)
    try:
        checked = await pulls.check(models)
    except LemonpodError as error:
        return web.json_response({"error": f"Model update check failed: {error}"}, status=500)
    return web.json_response(
        {
            "status": "success",
            "updates_available": len(checked.outdated),
            "models": list(checked.outdated),
            "unknown": dict(checked.unknown),
        }
    )


async def _fetched(inventory: Inventory) -> dict[str, dict[str, str]]:
    """The checkpoints of those models that are here and came from the hub."""
    models = {}
    for servable in inventory.servables():
        try:
            checkpoints = fetched_checkpoints(servable)
        except InvalidModelError:  # of another registry
            continue
        if checkpoints and not (await inventory.availability(servable)).missing:
            models[servable.entry.id] = checkpoints
    return models


def _wanted(request: web.Request) -> tuple[str, int, bool]:
    given = request.query
    query = given.get("query", given.get("q", "")).strip()
    if len(query) < _SHORTEST:
        raise _BadQueryError(f"Query parameter 'query' must contain at least {_SHORTEST} characters")
    if (source := given.get("source", _SOURCE)) not in _SOURCES:
        raise _BadQueryError(f"'source' must be {_SOURCE}, not '{source}'")
    limit = given.get("limit", str(_LIMIT))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 3 and 1 <= int(limit) <= _MOST):
        raise _BadQueryError(f"Query parameter 'limit' must be an integer from 1 to {_MOST}")
    if (wanted := given.get("format")) not in (None, _GGUF):
        raise _BadQueryError(f"'format' must be {_GGUF}, not '{wanted}'")
    return query, int(limit), wanted == _GGUF


def _result(found: Found) -> dict[str, Any]:
    return {
        "repository_id": found.repo,
        "display_name": found.repo.rpartition("/")[2],
        "source": _SOURCE,
        "repository_type": "model",
        "description": "",
        "tags": list(found.tags),
        "task": found.task,
        "downloads": found.downloads,
        "likes": found.likes,
        "has_gguf": _GGUF in found.tags,
    }


def _refused(status: int, message: str, kind: str, **more: object) -> web.Response:
    return web.json_response(typed_envelope(message, kind, **more), status=status)
