"""Looks at the top level of a JSON object without taking it apart.

The bytes of a body go on to the engine (or back to the client) as they came: numbers keep their digits,
strings their escapes. Only the span of one value is ever replaced.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Final, NoReturn

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.json_skip import skip_space, skip_value

BIG: Final = 1 << 20
"""Beyond this size a body is walked in small steps, which belong in a thread."""


@dataclass(frozen=True, slots=True)
class JsonBody:
    """An object's text, and those of its members that were asked for."""

    text: str
    values: Mapping[str, JsonValue]
    spans: Mapping[str, tuple[int, int]] | None = None
    """Where their texts start and end, if that is known yet."""

    def get(self, name: str) -> JsonValue:
        """The member's value; None where it is absent, as for an explicit null."""
        return self.values.get(name)

    def with_text(self, name: str, value: str) -> JsonBody:
        """The same text with the member's value replaced by the string `value`."""
        start, end = self.spans[name] if self.spans else _span(self.text, name)
        text = "".join((self.text[:start], encode_basestring_ascii(value), self.text[end:]))
        return JsonBody(text, {**self.values, name: value})

    def encode(self) -> bytes:
        """The body as bytes again: exactly those that were read, but for what was replaced."""
        return self.text.encode()


async def peek_aside(data: bytes, names: Collection[str]) -> JsonBody:
    """As `peek`, without holding up anybody else."""
    if len(data) <= BIG:
        return peek(data, names)
    return await asyncio.to_thread(peek, data, names)


def peek(data: bytes, names: Collection[str]) -> JsonBody:
    """Check that `data` is one JSON object and pick out the members in `names`.

    Raises MalformedRequestError for anything else, and for a top-level key that comes twice: the engine
    might believe the other one. In a body beyond BIG a list or an object is told as an empty list.
    """
    if not data:
        raise MalformedRequestError("Request body is required but was empty")
    try:
        text = data.decode()
        if len(text) <= BIG and (body := _in_one_go(text, names)) is not None:
            return body
        try:
            return _walk(text, names, _DECODER)
        except json.JSONDecodeError:
            raise
        except ValueError:  # int() refuses to read more than 4300 digits; nobody here needs them
            return _walk(text, names, _DECODER_OF_LONG_INTEGERS)
    except UnicodeDecodeError as error:
        raise _invalid(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg} at position {error.pos}") from error
    except RecursionError as error:
        raise _invalid("nested too deeply") from error


def _walk(text: str, names: Collection[str], decoder: json.JSONDecoder) -> JsonBody:
    if text.startswith("\ufeff"):
        raise _invalid("it starts with a byte order mark")
    position = skip_space(text, 0)
    if not text.startswith("{", position):
        raise _invalid("expected an object")
    members: dict[str, JsonValue] = {}
    spans: dict[str, tuple[int, int]] = {}
    seen: set[str] = set()
    position = skip_space(text, position + 1)
    if text.startswith("}", position):
        return _end(text, position, JsonBody(text, members, spans))
    while True:
        if not text.startswith('"', position):
            raise json.JSONDecodeError("Expected a key in double quotes", text, position)
        key, position = decoder.raw_decode(text, position)
        if key in seen:
            raise _invalid(f"the key {key[:80]!r} comes twice")
        seen.add(key)
        position = skip_space(text, position)
        if not text.startswith(":", position):
            raise json.JSONDecodeError("Expected ':'", text, position)
        start = skip_space(text, position + 1)
        if len(text) <= BIG or (key in names and not text.startswith(("[", "{"), start)):
            value, end = decoder.raw_decode(text, start)
        else:
            value, end = [], skip_value(text, start, decoder)
        if key in names:
            members[key] = value
            spans[key] = start, end
        position = skip_space(text, end)
        if text.startswith("}", position):
            return _end(text, position, JsonBody(text, members, spans))
        if not text.startswith(",", position):
            raise json.JSONDecodeError("Expected ',' or '}'", text, position)
        position = skip_space(text, position + 1)


def _end(text: str, position: int, body: JsonBody) -> JsonBody:
    rest = skip_space(text, position + 1)
    if rest != len(text):
        raise json.JSONDecodeError("Unexpected text after the object", text, rest)
    return body


def _in_one_go(text: str, names: Collection[str]) -> JsonBody | None:
    """What `_walk` finds, by steps that run in C; None where anything is odd, which it tells better."""
    try:
        members, end = _DECODER_OF_PAIRS.raw_decode(text, 0)
        found = dict(members)
        if len(found) != len(members) or not isinstance(members, tuple) or end != len(text):
            return None
    except (TypeError, ValueError, RecursionError, MalformedRequestError):
        return None
    values = {name: found[name] for name in names if name in found}
    return (
        None if any(isinstance(value, tuple | list) for value in values.values()) else JsonBody(text, values)
    )


def _span(text: str, name: str) -> tuple[int, int]:
    """Where the text of a member that is there starts and ends."""
    key = f'"{name}"'
    at = text.find(key)
    # A key that is written without escapes and stands nowhere else is the one that was found.
    if text.find(key, at + 1) < 0 <= at and "\\u" not in text:
        plain = _PLAIN_TEXT.match(text, at + len(key))
        if plain:
            return plain.span(1)
    spans = _walk(text, (name,), _DECODER_OF_LONG_INTEGERS).spans or {}
    return spans[name]


def _refuse_constant(name: str) -> NoReturn:
    raise _invalid(f"{name} is not a JSON value")


def _invalid(reason: str) -> MalformedRequestError:
    return MalformedRequestError(f"Invalid JSON in request body: {reason}")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_DECODER_OF_LONG_INTEGERS: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=float)
# Objects become tuples of their members, by no step of Python's: so a key that comes twice is seen.
_DECODER_OF_PAIRS: Final = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=tuple)
_PLAIN_TEXT: Final = re.compile(r'[ \t\n\r]*:[ \t\n\r]*("[^"\\]*")')
