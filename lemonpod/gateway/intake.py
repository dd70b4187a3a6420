"""Reads a client's body: within a size, within a pause, and with the model's name picked out."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, Final, Protocol, TypeAlias

from lemonpod.contract.vocabulary import Body, Capability, JsonValue
from lemonpod.errors import MalformedRequestError, RequestTooLargeError
from lemonpod.gateway.headers import media_type
from lemonpod.gateway.inflate import Inflater
from lemonpod.gateway.json_body import BIG, JsonBody, peek, peek_aside
from lemonpod.gateway.media import MEMBERS, with_format
from lemonpod.gateway.multipart import FieldFinder, boundary_of
from lemonpod.gateway.routes import Route
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.launch.options import CTX_SIZE

IN_MEMORY: Final = 1 << 20
"""Of a form; what is longer lies on the disk."""
_CHUNK: Final = 512 << 10
_PLAIN: Final = frozenset({b"", b"identity"})
_CTX_SIZE_KEY: Final = b'"%b"' % CTX_SIZE.encode()


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart body, spooled: in memory while small, then on disk."""

    file: IO[bytes]
    size: int
    model: str | None


Intake: TypeAlias = JsonBody | Upload | None


class Source(Protocol):
    """A request's body on its way."""

    content_type: bytes
    content_encoding: bytes
    content_length: int

    async def read(self) -> bytes:
        """What has come, as soon as there is something; empty at the end.

        Raises MalformedRequestError where the rest cannot be read.
        """


@asynccontextmanager
async def received(route: Route, source: Source, settings: GatewaySettings) -> AsyncIterator[Intake]:
    """The request's body; what was spooled is gone at the end."""
    if route.spec.body is Body.MULTIPART:
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as file:
            yield await _spool(route, source, settings, file)
    else:
        yield await json_aside(route, await read_body(source, settings))


async def read_body(source: Source, settings: GatewaySettings, limit: int | None = None) -> bytes:
    """The whole body, inflated; `limit` is one below the configured."""
    most = settings.max_body
    name: str | None = "max_body"
    if limit is not None and limit < most:
        most, name = limit, None
    pieces = [piece async for piece in _pieces(source, most, name)]
    return b"".join(pieces)


def is_plain(content_encoding: bytes) -> bool:
    """Whether the body comes as it is."""
    return content_encoding.strip().lower() in _PLAIN


def check_size(size: int, limit: int, name: str | None) -> None:
    """Raise RequestTooLargeError where a body is longer than the setting `name` allows."""
    if size > limit:
        raise RequestTooLargeError(
            f"The request body is longer than {limit} bytes", hint=f"see {name}" if name else None
        )


def name_of(intake: Intake) -> str | None:
    """The model that the body asks for."""
    if isinstance(intake, Upload):
        return intake.model
    name = intake.values.get("model") if intake else None
    if name is None:
        return None
    if not isinstance(name, str):
        raise MalformedRequestError("Invalid JSON in request body: 'model' must be a string")
    if not _is_text(name):
        raise MalformedRequestError("Invalid JSON in request body: 'model' holds half a character")
    return name


def payload_for(body: JsonBody, model: str) -> bytes:
    """The body for the engine: as it came, but with the model named by its canonical id."""
    return (body if body.values.get("model") in (None, model) else body.with_text("model", model)).data


def load_options(intake: Intake) -> dict[str, JsonValue]:
    """What the request says of its model's load, should it be the one that begins it."""
    if not isinstance(intake, JsonBody) or _CTX_SIZE_KEY not in intake.data or len(intake.data) > BIG:
        return {}
    size = peek(intake.data, (CTX_SIZE,)).get(CTX_SIZE)
    return {CTX_SIZE: size} if isinstance(size, int) and not isinstance(size, bool) else {}


def json_now(route: Route, data: bytes) -> JsonBody | None:
    """A JSON body of up to BIG bytes, with all that the route needs."""
    if not data and route.capability is Capability.SLOTS:
        return None  # an action on a slot needs no more than its query
    return _complete(route, peek(data, route.members))


async def json_aside(route: Route, data: bytes) -> JsonBody | None:
    """As `json_now`, but a long body does not hold up anybody else."""
    if len(data) <= BIG:
        return json_now(route, data)
    return _complete(route, await peek_aside(data, route.members))


def _complete(route: Route, body: JsonBody) -> JsonBody:
    if route.spec.required:
        _require(route, {name for name in route.spec.required if isinstance(body.get(name), str)})
    return with_format(route.capability, body) if route.capability in MEMBERS else body


def _require(route: Route, given: Collection[str]) -> None:
    for name in route.spec.required:
        if name not in given:
            raise MalformedRequestError(f"'{name}' parameter is required")


async def _spool(route: Route, source: Source, settings: GatewaySettings, file: IO[bytes]) -> Upload:
    if media_type(source.content_type) != b"multipart/form-data":
        raise MalformedRequestError("The request must be multipart/form-data")
    finder = FieldFinder(boundary_of(source.content_type.decode("utf-8", "surrogateescape")), "model")
    size = 0
    async for piece in _pieces(source, settings.max_upload, "max_upload"):
        finder.feed(piece)
        if size + len(piece) > IN_MEMORY:
            await asyncio.to_thread(file.write, piece)
        else:
            file.write(piece)
        size += len(piece)
    finder.close()
    _require(route, finder.names)
    return Upload(file, size, finder.value)


async def unspooled(upload: Upload) -> AsyncIterator[bytes]:
    """The upload's bytes, from the first on."""
    upload.file.seek(0)
    while piece := await asyncio.to_thread(upload.file.read, _CHUNK):
        yield piece


async def _pieces(source: Source, limit: int, name: str | None) -> AsyncIterator[bytes]:
    """The body as it arrives, inflated; a Content-Length is believed only where it is too long already."""
    coding = source.content_encoding.strip().lower()
    inflater = None if coding in _PLAIN else Inflater(coding.decode("latin-1"))
    check_size(source.content_length, limit, name)
    size = 0
    while piece := await source.read():
        for part in inflater.feed(piece) if inflater else (piece,):
            size += len(part)
            check_size(size, limit, name)
            yield part
            if inflater:
                await asyncio.sleep(0)  # a little that came may be much to inflate: others have their turn
    if inflater:
        inflater.close()


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
