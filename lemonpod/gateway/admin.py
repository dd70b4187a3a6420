"""Load, unload, pin, an engine's log, and the end of the server."""

from __future__ import annotations

import json
from contextlib import aclosing, suppress
from typing import Any, Final

from aiohttp import web

from lemonpod.engine.api import LogLine
from lemonpod.errors import EngineError, MalformedRequestError, ModelNotFoundError, ModelNotLoadedError
from lemonpod.gateway import keys
from lemonpod.gateway.control_body import flag, model_name, object_of, required_model
from lemonpod.gateway.errors import NO_RETRY, typed_envelope
from lemonpod.gateway.headers import AS_IT_COMES
from lemonpod.gateway.load_stream import stream_load
from lemonpod.gateway.models_api import main_checkpoint
from lemonpod.gateway.options_api import check_options

_NOT_OPTIONS: Final = frozenset({"model", "model_name", "save_options", "stream"})
_MANY: Final = 100
"""Of requests, where nobody says how many."""
_MAX_DIGITS: Final = 18
"""Of a number of lines: int() refuses thousands of them."""


async def load(request: web.Request) -> web.StreamResponse:
    """Start a model's engine, or restart it where the options differ, and wait until it is ready.

    With `stream` the answer is a stream of events that tell of the progress.
    """
    body = await object_of(request)
    name = model_name(body)
    if name is None:
        raise MalformedRequestError("'model_name' parameter is required")
    save, stream = flag(body, "save_options"), flag(body, "stream")
    request[keys.REQUESTED_MODEL] = name
    inventory = request.app[keys.INVENTORY]
    servable = await inventory.lookup(name)
    options = {key: value for key, value in body.items() if key not in _NOT_OPTIONS}
    check_options(servable, options)
    pool, model = request.app[keys.POOL], servable.entry.id

    async def loaded() -> dict[str, Any]:
        await pool.load(model, options)
        if save:
            # A null takes a saved value back for this load alone.
            await inventory.save_options(model, {k: v for k, v in options.items() if v is not None})
        return {
            "status": "success",
            "model_name": model,
            "checkpoint": main_checkpoint(servable),
            "recipe": servable.entry.recipe,
        }

    if stream:
        return await stream_load(request, pool, model, loaded())
    return web.json_response(await loaded())


async def unload(request: web.Request) -> web.Response:
    """Stop one engine, or without a name every one."""
    name = model_name(await object_of(request, or_nothing=True))
    pool = request.app[keys.POOL]
    try:
        if name is None:
            await pool.unload_all()
            return web.json_response({"status": "success", "message": "All models unloaded successfully"})
        model = await _id_of(request.app, name)
        await pool.unload(model)
    except ModelNotLoadedError as error:
        raise ModelNotLoadedError(f"Model not loaded: {name}") from error
    except EngineError as error:
        # Something of the engine is still there: no failed load, which is what the error table would say.
        return web.json_response(typed_envelope(str(error), "process_error"), status=500, headers=NO_RETRY)
    return web.json_response(
        {"status": "success", "message": "Model unloaded successfully", "model_name": model}
    )


async def pin(request: web.Request) -> web.Response:
    """Keep a loaded model loaded, or with `pinned` false let it make room for others again."""
    body = await object_of(request)
    name, pinned = required_model(body), flag(body, "pinned", default=True)
    model = await _id_of(request.app, name)
    try:
        request.app[keys.POOL].pin(model, pinned=pinned)
    except ModelNotLoadedError as error:
        raise ModelNotLoadedError(f"Model not loaded: {name}") from error
    return web.json_response({"status": "success", "model_name": model, "pinned": pinned})


async def logs(request: web.Request) -> web.StreamResponse:
    """An engine's output as NDJSON; with `follow` until the engine ends or the client leaves."""
    query = request.query
    name = query.get("model")
    if name is None:
        raise MalformedRequestError("'model' parameter is required")
    tail = _tail(request)
    try:
        lines = request.app[keys.POOL].logs(
            await _id_of(request.app, name),
            tail=tail,
            follow=query.get("follow", "") in {"1", "true"},
        )
    except ModelNotLoadedError:
        await request.app[keys.INVENTORY].lookup(name)  # raises where there is no such model at all
        raise
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", **AS_IT_COMES})
    await response.prepare(request)
    with suppress(ConnectionResetError):  # the client has gone
        async with aclosing(lines):
            async for line in lines:
                await response.write(_ndjson(line))
    return response


async def activity(request: web.Request) -> web.Response:
    """The data requests that ended last, the newest at the end; `tail` says how many at most."""
    tail = _tail(request)
    records = request.app[keys.RELAY].activities.tail(_MANY if tail is None else tail)
    return web.json_response({"requests": records})


async def shutdown(request: web.Request) -> web.Response:
    """End the server and every engine, after this answer."""
    request.app[keys.SHUTDOWN]()
    return web.json_response({"status": "shutting down"})


async def _id_of(app: web.Application, name: str) -> str:
    """The canonical id; a model may still run that is registered no more, then it is its name."""
    try:
        return (await app[keys.INVENTORY].lookup(name)).entry.id
    except ModelNotFoundError:
        return name


def _tail(request: web.Request) -> int | None:
    tail = request.query.get("tail")
    if tail is not None and not (tail.isascii() and tail.isdigit() and len(tail) <= _MAX_DIGITS):
        raise MalformedRequestError("'tail' must be a number of lines")
    return None if tail is None else int(tail)


def _ndjson(line: LogLine) -> bytes:
    return json.dumps({"seq": line.seq, "timestamp": line.time, "line": line.text}).encode() + b"\n"
