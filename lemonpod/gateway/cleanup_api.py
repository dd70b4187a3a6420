"""`/internal/cleanup-cache`: what in the cache of models nobody can use, and taking it away."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from lemonpod.gateway import keys
from lemonpod.gateway.control_body import flag, object_of
from lemonpod.models.checkpoint import repo_folder
from lemonpod.models.entry import CheckpointRef, Origin
from lemonpod.models.leftovers import Leftover
from lemonpod.pull.pulls import JobState, Pulls


async def clean(request: web.Request) -> web.Response:
    """Tell what it would remove, and with `dry_run` false remove it."""
    dry_run = flag(await object_of(request, or_nothing=True), "dry_run", default=True)
    inventory = request.app[keys.INVENTORY]
    running = {status.model for status in request.app[keys.POOL].statuses()}
    found = await inventory.leftovers(_paused(request.app[keys.PULLS]), running, remove=not dry_run)
    return web.json_response(
        {
            "orphaned_files": list(map(_told, found)),
            "total_bytes": sum(leftover.size for leftover in found),
            "dry_run": dry_run,
        }
    )


def _paused(pulls: Pulls) -> set[str]:
    """The folders with downloads that somebody means to go on with."""
    paused = (job for job in pulls.jobs() if job.state is JobState.PAUSED)
    refs = (
        CheckpointRef(text=text, origin=Origin.HUB)
        for job in paused
        for text in job.order.checkpoints.values()
    )
    return {folder for ref in refs if (folder := repo_folder(ref))}


def _told(leftover: Leftover) -> dict[str, Any]:
    return {
        "path": str(leftover.path),
        "size": leftover.size,
        "model": leftover.repo,
        "type": leftover.kind,
        "belongs_to": leftover.repo,
    }
