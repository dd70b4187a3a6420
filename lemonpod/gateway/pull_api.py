"""Models that come and go: registered, fetched from the hub, deleted; and downloads that need no client."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from lemonpod.errors import (
    MalformedRequestError,
    ModelNotFoundError,
    ModelNotLoadedError,
    NotDeletableError,
    UnknownModelError,
)
from lemonpod.gateway import keys
from lemonpod.gateway.control_body import flag, object_of, required_model
from lemonpod.gateway.fetching import fetching, progress_members, wish_for
from lemonpod.gateway.load_stream import stream_work
from lemonpod.gateway.models_api import describe
from lemonpod.gateway.pull_body import definition_in
from lemonpod.models.extra import SOURCE
from lemonpod.models.variants import GGUF, is_mmproj
from lemonpod.pull.plan import variants
from lemonpod.pull.pulls import Job, JobState

_ACTIONS: Final = {"pause": JobState.PAUSED, "cancel": JobState.CANCELLED, "remove": JobState.CANCELLED}
_MOST_VARIANTS: Final = 5


async def pull(request: web.Request) -> web.StreamResponse:
    """Register a model, if the body describes one, and fetch what is missing of it."""
    body = await object_of(request)
    definition = definition_in(body)
    stream, subscribe = flag(body, "stream"), flag(body, "subscribe", True)
    do_not_upgrade = flag(body, "do_not_upgrade")
    inventory, pulls = request.app[keys.INVENTORY], request.app[keys.PULLS]
    request[keys.REQUESTED_MODEL] = name = required_model(body)
    wish = await wish_for(inventory, name, definition)
    wanted = await fetching(inventory, pulls, wish, do_not_upgrade=do_not_upgrade)

    async def pulled() -> dict[str, Any]:
        await wanted.finish()
        return {"status": "success", "model_name": wish.model, "message": f"Installed model: {wish.model}"}

    async def told() -> dict[str, Any]:
        done = await pulled()
        files = wanted.progress.total_files
        return {"file_index": files, "total_files": files, "percent": 100, **done}

    if not subscribe and wanted.needs_the_hub:
        return web.json_response(_snapshot(await wanted.start()))
    if stream and subscribe:
        return await stream_work(request, told(), lambda: progress_members(wanted.progress), model=wish.model)
    return web.json_response(await pulled())


async def register(request: web.Request) -> web.Response:
    """Register a model without fetching anything."""
    definition = definition_in(await object_of(request))
    if definition is None:
        raise MalformedRequestError("'recipe' parameter is required to register a model")
    inventory = request.app[keys.INVENTORY]
    wish = await wish_for(inventory, definition.name, definition)
    assert wish.draft is not None  # noqa: S101 - there is a definition
    await inventory.register(wish.draft)
    servable = inventory.find(wish.model)
    return web.json_response(
        {
            "status": "success",
            "model_name": wish.model,
            "canonical_model_name": wish.model,
            "model": await describe(request.app, servable),
        }
    )


async def delete(request: web.Request) -> web.Response:
    """Forget a model and remove what of its files is its alone; one that is loaded is unloaded first."""
    name = required_model(await object_of(request))
    try:
        model = await delete_model(request.app, name)
    except ModelNotFoundError as error:
        raise NotDeletableError(str(error)) from error
    return web.json_response({"status": "success", "message": f"Deleted model: {model}"})


async def delete_model(app: web.Application, name: str) -> str:
    """As `delete`; returns what it was called. Raises ModelNotFoundError, NotDeletableError, ConfigError."""
    inventory, pulls = app[keys.INVENTORY], app[keys.PULLS]
    entry = (await inventory.lookup(name)).entry
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
        await app[keys.POOL].unload(entry.id)
    await inventory.delete(entry.id)
    return entry.id


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
    if not isinstance(id_, str) or not isinstance(action, str) or action not in _ACTIONS:
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


def _snapshot(job: Job) -> dict[str, Any]:
    progress = job.progress
    told = {
        "id": f"model:{job.model}",
        "type": "model",
        "model_name": job.model,
        "status": job.state,
        "running": job.running,
        **progress_members(progress),
        "bytes_previously_downloaded": progress.had_bytes,
        "completed_files_bytes": max(0, progress.done_bytes - progress.bytes_downloaded),
        "cumulative_bytes_downloaded": progress.done_bytes,
        "complete": job.state is JobState.COMPLETED,
    }
    return told if job.error is None else {**told, "error": str(job.error)}
