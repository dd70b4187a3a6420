"""Work that is told of as it goes on: events of progress, then one of the outcome."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from aiohttp import web

from lemonpod.engine.api import InstanceStatus, Progress
from lemonpod.engine.pool import Pool
from lemonpod.engine.tasks import cancel
from lemonpod.errors import LemonpodError, QueueFullError
from lemonpod.gateway.errors import envelope, row_of
from lemonpod.gateway.headers import AS_IT_COMES

_INTERVAL: Final = 0.25
_SILENCE: Final = 5.0
"""An event that says nothing new is sent after so long, so that nothing between takes the stream for dead."""


def _event(name: str, data: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class Words(NamedTuple):
    """How a client is told: `event` writes `progress`, and at the end `complete` or `error`."""

    content_type: str
    event: Callable[[str, Mapping[str, Any]], bytes]


EVENTS: Final = Words("text/event-stream", _event)


def progress_json(progress: Progress | None) -> dict[str, Any] | None:
    """How far a preparation is; `percent` only where the whole is known."""
    if progress is None:
        return None
    total = progress.total_bytes
    return {
        "text": progress.text,
        "done_bytes": progress.done_bytes,
        "total_bytes": total,
        "percent": round(100 * progress.done_bytes / total, 1) if total else None,
    }


async def stream_load(
    request: web.Request, pool: Pool, model: str, load: Coroutine[Any, Any, Mapping[str, Any]]
) -> web.StreamResponse:
    """Answer with the events of `load`, whose outcome is the last of them."""
    return await stream_work(request, load, lambda: _progress(model, pool.status(model)), model=model)


async def stream_work(
    request: web.Request,
    work: Coroutine[Any, Any, Mapping[str, Any]],
    progress: Callable[[], Mapping[str, Any]],
    *,
    model: str,
    words: Words = EVENTS,
) -> web.StreamResponse:
    """Answer with what `progress` says until `work` is over; its outcome is the last event.

    A client that leaves ends the work.
    """
    response = web.StreamResponse(headers={"Content-Type": words.content_type, **AS_IT_COMES})
    working = asyncio.create_task(work)
    try:
        await asyncio.sleep(0)
        if working.done() and isinstance(working.exception(), QueueFullError):
            working.result()  # turned away: with a status and its headers, as every other request
        with suppress(ConnectionResetError):  # the client has gone
            await response.prepare(request)
            await _tell(response, working, progress, words, model)
    finally:
        await cancel(working)
    return response


async def _tell(
    response: web.StreamResponse,
    working: asyncio.Task[Mapping[str, Any]],
    progress: Callable[[], Mapping[str, Any]],
    words: Words,
    model: str,
) -> None:
    clock = asyncio.get_running_loop().time
    told, told_at = b"", -_SILENCE
    while not (await asyncio.wait({working}, timeout=_INTERVAL))[0]:
        event = words.event("progress", progress())
        if event != told or clock() - told_at >= _SILENCE:
            await response.write(event)
            told, told_at = event, clock()
    try:
        await response.write(words.event("complete", working.result()))
    except LemonpodError as error:
        failure = envelope(error, model=model)
        await response.write(words.event("error", {**failure, "status_code": row_of(type(error)).status}))


def _progress(model: str, status: InstanceStatus | None) -> dict[str, Any]:
    progress = progress_json(status.progress if status else None)
    return {"model_name": model, "status": "preparing" if progress else "loading", "progress": progress}
