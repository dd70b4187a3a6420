"""Requests for sounds and shapes: the format that goes without saying, and what cannot be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import Capability, JsonValue
from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.json_body import BIG, JsonBody, peek

_FORMAT, _STREAM, _STREAM_FORMAT, _IMAGE = "response_format", "stream", "stream_format", "image"
_SHAPE: Final = "glb"

MEMBERS: Final[Mapping[Capability, tuple[str, ...]]] = MappingProxyType(
    {
        Capability.TTS: (_FORMAT, _STREAM, _STREAM_FORMAT),
        Capability.AUDIO_GENERATION: (_FORMAT,),
        Capability.MODEL_3D: (_FORMAT, _IMAGE),
    }
)
"""The capabilities that make a file, and what is read of a request for one."""
_TYPES: Final[Mapping[str, bytes]] = {
    "aac": b"audio/aac",
    "flac": b"audio/flac",
    _SHAPE: b"model/gltf-binary",
    "mp3": b"audio/mpeg",
    "opus": b"audio/opus",
    "pcm": b"audio/l16;rate=24000;endianness=little-endian",
    "wav": b"audio/wav",
}


def with_format(capability: Capability, body: JsonBody) -> JsonBody:
    """The request with its format said. Raises MalformedRequestError."""
    if body.get(_STREAM_FORMAT) not in (None, "audio"):
        raise MalformedRequestError("Only 'audio' is supported for stream_format")
    wanted = body.get(_FORMAT)
    if capability is Capability.MODEL_3D:
        if not isinstance(body.get(_IMAGE), str | None):
            raise MalformedRequestError("'image' must be a string: the image in base64")
        if wanted not in (None, _SHAPE):
            raise MalformedRequestError(f"response_format {wanted!r} is not supported (supported: {_SHAPE})")
    if wanted is not None:
        return body
    usual = _usual_format(capability, body)
    return body.with_text(_FORMAT, usual) if _FORMAT in body.values else body.with_member(_FORMAT, usual)


def type_of_output(capability: Capability, body: object) -> bytes | None:
    """The media type of what `with_format` asks for, where the format is a known one."""
    wanted: JsonValue = _SHAPE if capability is Capability.MODEL_3D else None
    if wanted is None and isinstance(body, bytes) and len(body) <= BIG:
        wanted = peek(body, (_FORMAT,)).get(_FORMAT)
    return _TYPES.get(wanted) if isinstance(wanted, str) else None


def _usual_format(capability: Capability, body: JsonBody) -> str:
    match capability:
        case Capability.MODEL_3D:
            return _SHAPE
        case Capability.AUDIO_GENERATION:
            return "wav"
    return "pcm" if body.get(_STREAM) is True or body.get(_STREAM_FORMAT) is not None else "mp3"
