"""Reads a client's body: within a size, within a pause, and with the model's name picked out."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, Final, TypeAlias

from aiohttp import web

from lemonpod.contract.vocabulary import Body, Capability
from lemonpod.errors import MalformedRequestError, RequestTimeoutError, RequestTooLargeError
from lemonpod.gateway import keys
from lemonpod.gateway.headers import media_type
from lemonpod.gateway.inflate import Inflater
from lemonpod.gateway.json_body import JsonBody, peek_aside
from lemonpod.gateway.multipart import FieldFinder, boundary_of
from lemonpod.gateway.routes import Route
from lemonpod.gateway.settings import GatewaySettings

_IN_MEMORY: Final = 1 << 20
_CHUNK: Final = 256 << 10
_PLAIN: Final = frozenset({"", "identity"})


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart body, spooled: in memory while small, then on disk."""

    file: IO[bytes]
    size: int
    model: str | None


Intake: TypeAlias = JsonBody | Upload | None


@asynccontextmanager
async def received(route: Route, request: web.Request) -> AsyncIterator[Intake]:
    """The request's body; what was spooled is gone at the end."""
    settings = request.app[keys.SETTINGS]
    if route.spec.body is Body.NONE:
        yield None
    elif route.spec.body is Body.MULTIPART:
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
            yield await _spool(route, request, settings, file)
    else:
        data = await read_body(request, settings)
        if not data and route.capability is Capability.SLOTS:
            yield None  # an action on a slot needs no more than its query
        else:
            yield await _json(route, data)


async def read_body(request: web.Request, settings: GatewaySettings, limit: int | None = None) -> bytes:
    """The whole body, inflated; `limit` is one below the configured."""
    most = settings.max_body
    name: str | None = "max_body"
    if limit is not None and limit < most:
        most, name = limit, None
    pieces = [piece async for piece in _pieces(request, most, name, settings.body_timeout)]
    return b"".join(pieces)


def name_of(intake: Intake) -> str | None:
    """The model that the body asks for."""
    if isinstance(intake, Upload):
        return intake.model
    name = intake.get("model") if intake else None
    if name is not None and not isinstance(name, str):
        raise MalformedRequestError("Invalid JSON in request body: 'model' must be a string")
    if name is not None and not _is_text(name):
        raise MalformedRequestError("Invalid JSON in request body: 'model' holds half a character")
    return name


def payload_for(intake: Intake, model: str) -> AsyncIterator[bytes] | io.BytesIO | None:
    """The body for the engine: as it came, but JSON with the model named by its canonical id."""
    match intake:
        case None:
            return None
        case Upload():
            return _unspool(intake)
        case JsonBody():
            body = intake if intake.get("model") in (None, model) else intake.with_text("model", model)
            return io.BytesIO(body.encode())


async def _json(route: Route, data: bytes) -> JsonBody:
    body = await peek_aside(data, ("model", *route.spec.required))
    _require(route, {name for name in route.spec.required if isinstance(body.get(name), str)})
    return body


def _require(route: Route, given: Collection[str]) -> None:
    for name in route.spec.required:
        if name not in given:
            raise MalformedRequestError(f"'{name}' parameter is required")


async def _spool(route: Route, request: web.Request, settings: GatewaySettings, file: IO[bytes]) -> Upload:
    content_type = request.headers.get("Content-Type", "")
    if media_type(request.headers) != "multipart/form-data":
        raise MalformedRequestError("The request must be multipart/form-data")
    finder = FieldFinder(boundary_of(content_type), "model")
    size = 0
    async for piece in _pieces(request, settings.max_upload, "max_upload", settings.body_timeout):
        finder.feed(piece)
        if size + len(piece) > _IN_MEMORY:
            await asyncio.to_thread(file.write, piece)
        else:
            file.write(piece)
        size += len(piece)
    finder.close()
    _require(route, finder.names)
    return Upload(file, size, finder.value)


async def _unspool(upload: Upload) -> AsyncIterator[bytes]:
    upload.file.seek(0)
    while piece := await asyncio.to_thread(upload.file.read, _CHUNK):
        yield piece


async def _pieces(request: web.Request, limit: int, name: str | None, pause: float) -> AsyncIterator[bytes]:
    """The body as it arrives, inflated; a Content-Length is believed only where it is too long already."""
    coding = request.headers.get("Content-Encoding", "").strip().lower()
    inflater = None if coding in _PLAIN else Inflater(coding)
    too_large = RequestTooLargeError(
        f"The request body is longer than {limit} bytes", hint=f"see {name}" if name else None
    )
    if (request.content_length or 0) > limit:
        raise too_large
    size = 0
    while True:
        try:
            async with asyncio.timeout(pause):
                piece = await request.content.readany()
        except TimeoutError as error:
            raise RequestTimeoutError(f"No more of the request body came within {pause:g} s") from error
        except web.RequestPayloadError as error:
            reason = " ".join(str(error).split())  # it draws pictures of the bytes
            raise MalformedRequestError(f"The request body cannot be read: {reason}") from error
        if not piece:
            break
        for part in inflater.feed(piece) if inflater else (piece,):
            size += len(part)
            if size > limit:
                raise too_large
            yield part
            if inflater:
                await asyncio.sleep(0)  # a little that came may be much to inflate: others have their turn
    if inflater:
        inflater.close()


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)
