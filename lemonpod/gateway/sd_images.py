"""Requests for images as stable-diffusion.cpp's server takes them.

It reads a prompt, a number and a size; whatever else may be said rides in the prompt, as a JSON object
between two tags. What a request leaves open is the model's own options' to say.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.form import Part

EDITS: Final = "/images/edits"
VARIATIONS: Final = "/images/variations"

_OPENING, _CLOSING = "<sd_cpp_extra_args>", "</sd_cpp_extra_args>"
_VARIATION_PROMPT: Final = "variation"
"""OpenAI's variations have no prompt, and an edit must."""
_IMAGES: Final = frozenset({"image", "image[]"})
_SEEDS: Final = 1 << 31
_SIZE: Final = "size"
_LARGEST: Final = 1 << 63
"""Of a number: no engine counts further, and neither infinity nor what is no number is within."""
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{0,18})?")
_METHOD: Final = ("sample_method", "sampling_method")
_TOLD_APART: Final = frozenset(
    {"steps", "cfg_scale", *_METHOD, "flow_shift", "seed", "width", "height", _SIZE, "prompt"}
)


def generation_body(data: bytes, options: Mapping[str, JsonValue]) -> bytes:
    """The JSON body of a generation, from the client's."""
    try:
        return json.dumps(_told_again(json.loads(data), options)).encode()
    except ValueError as error:  # of a number that no one could mean
        raise MalformedRequestError(f"Invalid JSON in request body: {error}") from error
    except RecursionError as error:
        raise MalformedRequestError("Invalid JSON in request body: nested too deeply") from error


def _told_again(said: dict[str, JsonValue], options: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    prompt = said.get("prompt", "")
    if not isinstance(prompt, str):
        raise MalformedRequestError("'prompt' must be a string")
    body: dict[str, JsonValue] = {name: value for name, value in said.items() if name not in _TOLD_APART}
    body["prompt"] = with_extra_args(prompt, said, options)
    if size := size_of(said, options):
        body[_SIZE] = size
    return body


def edit_form(
    parts: Iterable[Part], options: Mapping[str, JsonValue], *, is_variation: bool
) -> Iterable[Part]:
    """The form of an edit, from the client's of an edit or a variation."""
    parts = list(parts)
    said: dict[str, JsonValue] = {part.name: part.text for part in parts if part.file_name is None}
    prompt = _VARIATION_PROMPT if is_variation else str(said.get("prompt", ""))
    yield Part(name="prompt", text=with_extra_args(prompt, said, options, with_flow=not is_variation))
    if size := size_of(said, options):
        yield Part(name=_SIZE, text=size)
    for part in parts:
        if part.file_name is not None:
            yield Part(
                name="image[]" if part.name in _IMAGES else part.name,
                file_name=part.file_name,
                content_type=part.content_type,
                span=part.span,
            )
        elif part.name not in _TOLD_APART:
            yield part


def with_extra_args(
    prompt: str,
    said: Mapping[str, JsonValue],
    options: Mapping[str, JsonValue],
    *,
    with_flow: bool = True,
    draw: Callable[[int], int] = secrets.randbelow,
) -> str:
    """The prompt with what the request and the options say besides.

    A client that has put such an object into its prompt has said everything itself.
    """
    if not prompt or _OPENING in prompt:
        return prompt
    sample: dict[str, Any] = {}
    if (steps := _number(said, options, "steps", int)) and steps > 0:
        sample["sample_steps"] = steps
    asked = next((_text(said, name) for name in _METHOD if said.get(name)), None)
    if method := asked or options.get("sampling_method"):
        sample["sample_method"] = method
    if with_flow and (shift := _number(said, options, "flow_shift", float)) is not None:
        sample["flow_shift"] = shift
    if (scale := _number(said, options, "cfg_scale", float)) is not None:
        sample["guidance"] = {"txt_cfg": scale}
    extra: dict[str, Any] = {"sample_params": sample} if sample else {}
    if (seed := _number(said, {}, "seed", int)) is not None:
        extra["seed"] = seed if seed >= 0 else draw(_SEEDS)  # the engine's own would be the same each time
    return f"{prompt} {_OPENING}{json.dumps(extra)}{_CLOSING}" if extra else prompt


def size_of(said: Mapping[str, JsonValue], options: Mapping[str, JsonValue]) -> str | None:
    """`WIDTHxHEIGHT`, of the request in either form, else of the options."""
    if said.get(_SIZE) not in (None, "", "auto"):
        return _text(said, _SIZE)
    for source in (said, options):
        width, height = (_number(source, {}, name, int) for name in ("width", "height"))
        if width and height and width > 0 and height > 0:
            return f"{width}x{height}"
    return None


def _text(said: Mapping[str, JsonValue], name: str) -> str:
    value = said[name]
    if not isinstance(value, str):
        raise MalformedRequestError(f"'{name}' must be a string")
    return value


def _number(
    said: Mapping[str, JsonValue], options: Mapping[str, JsonValue], name: str, kind: type[int] | type[float]
) -> Any:
    """A number of the request's, which in a form is a text, or else of the options."""
    value = said.get(name)
    if value in (None, ""):
        value = options.get(name)
    match value:
        case None | "":
            return None
        case bool():
            pass
        case int() | float() if abs(value) <= _LARGEST and (kind is float or value == int(value)):
            return kind(value)
        case str() if _NUMBER.fullmatch(value) and (kind is float or value.lstrip("-").isdigit()):
            return kind(value)
    raise MalformedRequestError(f"'{name}' must be a {'whole ' if kind is int else ''}number")
