"""Models that come and go: registered, fetched from the hub, deleted; and downloads that need no client."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from lemonpod.errors import (
    InvalidModelError,
    MalformedRequestError,
    ModelNotFoundError,
    ModelNotLoadedError,
    NotDeletableError,
    UnknownModelError,
)
from lemonpod.gateway import keys
from lemonpod.gateway.control_body import flag, object_of, required_model
from lemonpod.gateway.load_stream import stream_work
from lemonpod.gateway.models_api import describe
from lemonpod.gateway.options_api import check_options
from lemonpod.gateway.pull_body import Definition, definition_in
from lemonpod.inventory.inventory import Inventory
from lemonpod.inventory.servable import Servable, fetched_checkpoints
from lemonpod.models.extra import SOURCE
from lemonpod.models.variants import GGUF, is_mmproj
from lemonpod.models.write import Draft
from lemonpod.pull.plan import variants
from lemonpod.pull.pulls import Job, JobState, Order, PullProgress

_ACTIONS: Final = {"pause": JobState.PAUSED, "cancel": JobState.CANCELLED, "remove": JobState.CANCELLED}
_MOST_VARIANTS: Final = 5


@dataclass(frozen=True, slots=True)
class _Wish:
    """A model to fetch; `draft` where it is to be registered first."""

    servable: Servable
    draft: Draft | None

    @property
    def model(self) -> str:
        return self.servable.entry.id


async def pull(request: web.Request) -> web.StreamResponse:
    """Register a model, if the body describes one, and fetch what is missing of it."""
    body = await object_of(request)
    definition = definition_in(body)
    stream, subscribe = flag(body, "stream"), flag(body, "subscribe", True)
    do_not_upgrade = flag(body, "do_not_upgrade")
    inventory, pulls = request.app[keys.INVENTORY], request.app[keys.PULLS]
    request[keys.REQUESTED_MODEL] = name = required_model(body)
    wish = await _wish(inventory, name, definition)
    checkpoints = fetched_checkpoints(wish.servable)
    if (do_not_upgrade or pulls.offline) and not (await inventory.availability(wish.servable)).missing:
        checkpoints = {}
    order = Order(checkpoints=checkpoints, exact=wish.draft is not None)

    async def register() -> None:
        if wish.draft is not None:
            await inventory.register(wish.draft)

    async def pulled() -> dict[str, Any]:
        if checkpoints:
            await pulls.pull(wish.model, order, register)
        else:
            await register()
        return {"status": "success", "model_name": wish.model, "message": f"Installed model: {wish.model}"}

    async def told() -> dict[str, Any]:
        done = await pulled()
        files = _progress(pulls.find(wish.model))["total_files"]
        return {"file_index": files, "total_files": files, "percent": 100, **done}

    if not subscribe and checkpoints:
        return web.json_response(_snapshot(await pulls.start(wish.model, order, register)))
    if stream and subscribe:
        return await stream_work(request, told(), lambda: _progress(pulls.find(wish.model)), model=wish.model)
    return web.json_response(await pulled())


async def register(request: web.Request) -> web.Response:
    """Register a model without fetching anything."""
    definition = definition_in(await object_of(request))
    if definition is None:
        raise MalformedRequestError("'recipe' parameter is required to register a model")
    inventory = request.app[keys.INVENTORY]
    wish = await _wish(inventory, definition.name, definition)
    assert wish.draft is not None  # noqa: S101 - there is a definition
    await inventory.register(wish.draft)
    servable = inventory.find(wish.model)
    return web.json_response(
        {
            "status": "success",
            "model_name": wish.model,
            "canonical_model_name": wish.model,
            "model": await describe(inventory, request.app[keys.POOL], servable),
        }
    )


async def delete(request: web.Request) -> web.Response:
    """Forget a model and remove what of its files is its alone; one that is loaded is unloaded first."""
    name = required_model(await object_of(request))
    inventory, pulls = request.app[keys.INVENTORY], request.app[keys.PULLS]
    try:
        entry = (await inventory.lookup(name)).entry
    except ModelNotFoundError as error:
        raise NotDeletableError(str(error)) from error
    if entry.source == SOURCE:
        files = ", ".join(ref.text for ref in entry.checkpoints.values())
        raise NotDeletableError(
            f"'{entry.id}' is not registered, it lies in the folder of extra models",
            hint=f"remove it by hand: {files}",
        )
    if (job := pulls.find(entry.id)) is not None:
        await pulls.stop(job, JobState.CANCELLED)
        pulls.forget(job)
    with suppress(ModelNotLoadedError):
        await request.app[keys.POOL].unload(entry.id)
    await inventory.delete(entry.id)
    return web.json_response({"status": "success", "message": f"Deleted model: {entry.id}"})


async def list_variants(request: web.Request) -> web.Response:
    """What a repository of GGUF files offers."""
    repo = request.query.get("checkpoint", "")
    if "/" not in repo:
        raise MalformedRequestError("'checkpoint' must be a repository, as 'org/repo'")
    listing = await request.app[keys.PULLS].listing(repo)
    projectors = [path for path in listing.paths if is_mmproj(path) and path.endswith(GGUF)]
    hints = {"embed": "embeddings", "rerank": "reranking"}
    labels = [label for part, label in hints.items() if part in repo.casefold()]
    return web.json_response(
        {
            "checkpoint": repo,
            "recipe": "llamacpp",
            "suggested_name": repo.rpartition("/")[2],
            "suggested_labels": ["vision", *labels] if projectors else labels,
            "mmproj_files": projectors,
            "variants": [
                {
                    "name": variant.name,
                    "primary_file": variant.files[0].path,
                    "files": [file.path for file in variant.files],
                    "sharded": len(variant.files) > 1,
                    "size_bytes": variant.size,
                }
                for variant in variants(listing)[:_MOST_VARIANTS]
            ],
        }
    )


async def downloads(request: web.Request) -> web.Response:
    """The downloads that go on, and those that ended last."""
    return web.json_response([_snapshot(job) for job in request.app[keys.PULLS].jobs()])


async def control_download(request: web.Request) -> web.Response:
    """Pause, cancel or forget a download. What has come of it is kept for the next pull."""
    body = await object_of(request)
    id_, action = body.get("id"), body.get("action")
    if not isinstance(id_, str) or action not in _ACTIONS:
        raise MalformedRequestError("'id' and an 'action' of pause, cancel or remove are required")
    pulls = request.app[keys.PULLS]
    job = pulls.find(id_.removeprefix("model:"))
    if job is None:
        if action == "remove":
            return web.json_response({"status": "ok", "missing": True})
        raise UnknownModelError(f"there is no download '{id_}'")
    await pulls.stop(job, _ACTIONS[action])
    if action == "remove":
        pulls.forget(job)
        return web.json_response({"status": "ok"})
    return web.json_response(_snapshot(job))


async def _wish(inventory: Inventory, name: str, definition: Definition | None) -> _Wish:
    if definition is None:
        try:
            return _Wish(await inventory.lookup(name), None)
        except ModelNotFoundError as error:
            raise UnknownModelError(
                str(error), hint="to register a new one, say its 'checkpoint' and 'recipe'"
            ) from error
    draft, servable = inventory.draft(name, **definition.as_arguments())
    if servable.recipe_problem is not None:
        raise InvalidModelError(f"Model '{name}': {servable.recipe_problem}")
    check_options(servable, definition.recipe_options)
    return _Wish(servable, draft)


def _progress(job: Job | None) -> dict[str, Any]:
    progress = PullProgress() if job is None else job.progress
    total = progress.bytes_total
    return {
        "file": progress.file,
        "file_index": progress.file_index,
        "total_files": progress.total_files,
        "bytes_downloaded": progress.bytes_downloaded,
        "bytes_total": total,
        "percent": 100 * progress.bytes_downloaded // total if total else 0,
        "total_download_size": progress.total_bytes,
        "overall_bytes_downloaded": progress.done_bytes,
    }


def _snapshot(job: Job) -> dict[str, Any]:
    progress = job.progress
    told = {
        "id": f"model:{job.model}",
        "type": "model",
        "model_name": job.model,
        "status": job.state,
        "running": job.running,
        **_progress(job),
        "bytes_previously_downloaded": progress.had_bytes,
        "completed_files_bytes": max(0, progress.done_bytes - progress.bytes_downloaded),
        "cumulative_bytes_downloaded": progress.done_bytes,
        "complete": job.state is JobState.COMPLETED,
    }
    return told if job.error is None else {**told, "error": str(job.error)}
