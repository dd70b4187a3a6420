"""Looks at the top level of a JSON object without taking it apart.

The bytes of a body go on to the engine (or back to the client) as they came: numbers keep their digits,
strings their escapes. Only the span of one value is ever replaced.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.json_skip import skip_space, skip_value

_Values = dict[str, JsonValue]
_Spans = dict[str, tuple[int, int]]

_SHORT: Final = 2 << 10
"""Up to this size objects are made more quickly than places are found."""
BIG: Final = 1 << 20
"""Beyond this size a body is walked in small steps, which belong in a thread."""

_ROOM: Final = 20
"""How deep within others what a client gave may be written."""


class JsonBody(NamedTuple):
    """An object's bytes, and those of its members that were asked for."""

    data: bytes
    values: Mapping[str, JsonValue]
    spans: Mapping[str, tuple[int, int]] | None = None
    """Where their texts start and end in `data`, if that is known yet."""

    def get(self, name: str) -> JsonValue:
        """The member's value; None where it is absent, as for an explicit null."""
        return self.values.get(name)

    def with_text(self, name: str, value: str) -> JsonBody:
        """The same text with the member's value replaced by the string `value`."""
        start, end = self.spans[name] if self.spans else _span(self.data, name)
        text = encode_basestring_ascii(value).encode()
        return JsonBody(b"".join((self.data[:start], text, self.data[end:])), {**self.values, name: value})

    def with_member(self, name: str, value: JsonValue) -> JsonBody:
        """With one more member, which it must not have yet."""
        start = self.data.index(b"{") + 1
        text = f"{json.dumps(name)}: {json.dumps(value)}"
        is_empty = _CLOSING.match(self.data, start) is not None
        return self.spliced(start, start, (text if is_empty else f"{text}, ").encode())

    def spliced(self, start: int, end: int, text: bytes) -> JsonBody:
        """With other text at a place that is outside of the members that were asked for."""
        data = b"".join((self.data[:start], text, self.data[end:]))
        more = len(text) - (end - start)
        spans = self.spans and {
            name: (at + more, to + more) if at >= start else (at, to) for name, (at, to) in self.spans.items()
        }
        return JsonBody(data, self.values, spans)


async def peek_aside(data: bytes, names: Collection[str]) -> JsonBody:
    """As `peek`, without holding up anybody else."""
    if len(data) <= BIG:
        return peek(data, names)
    return await asyncio.to_thread(peek, data, names)


def parsed(data: bytes) -> Mapping[str, Any]:
    """The whole object, which `peek` lets pass, and which can be written as JSON again, within others too."""
    peek(data, ())
    try:
        values: Mapping[str, Any] = json.loads(data)
        within: Any = values
        for _ in range(_ROOM):
            within = [within]
        json.dumps(within, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        # Integers of thousands of digits, numbers beyond all floats, half a character.
        raise _invalid(str(error)) from error
    except RecursionError as error:
        raise _invalid("nested too deeply") from error
    return values


def peek(data: bytes, names: Collection[str]) -> JsonBody:
    """Check that `data` is one JSON object and pick out the members in `names`.

    Raises MalformedRequestError for anything else, and for a top-level key that comes twice: the engine
    might believe the other one. In a body beyond BIG a list or an object is told as an empty list.
    """
    if not data:
        raise MalformedRequestError("Request body is required but was empty")
    try:
        text = data.decode()
        if _SHORT < len(data) <= BIG and (body := _by_places(data, names)) is not None:
            return body
        if len(text) <= BIG and (values := _in_one_go(text, names)) is not None:
            return JsonBody(data, values)
        try:
            values, spans = _walk(text, names, _DECODER)
        except json.JSONDecodeError:
            raise
        except ValueError:  # int() refuses to read more than 4300 digits; nobody here needs them
            values, spans = _walk(text, names, _DECODER_OF_LONG_INTEGERS)
        return JsonBody(data, values, _in_bytes(spans, text))
    except UnicodeDecodeError as error:
        raise _invalid(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg} at position {error.pos}") from error
    except RecursionError as error:
        raise _invalid("nested too deeply") from error


def _walk(text: str, names: Collection[str], decoder: json.JSONDecoder) -> tuple[_Values, _Spans]:
    """The members in `names`, and where in the text they stand."""
    if text.startswith("\ufeff"):
        raise _invalid("it starts with a byte order mark")
    position = skip_space(text, 0)
    if not text.startswith("{", position):
        raise _invalid("expected an object")
    members: _Values = {}
    spans: _Spans = {}
    seen: set[str] = set()
    position = skip_space(text, position + 1)
    if text.startswith("}", position):
        return _end(text, position, members, spans)
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
            return _end(text, position, members, spans)
        if not text.startswith(",", position):
            raise json.JSONDecodeError("Expected ',' or '}'", text, position)
        position = skip_space(text, position + 1)


def _end(text: str, position: int, members: _Values, spans: _Spans) -> tuple[_Values, _Spans]:
    rest = skip_space(text, position + 1)
    if rest != len(text):
        raise json.JSONDecodeError("Unexpected text after the object", text, rest)
    return members, spans


def _in_bytes(spans: _Spans, text: str) -> _Spans:
    """The same places in the text's bytes."""
    if text.isascii():
        return spans
    return {name: (_size(text[:start]), _size(text[:end])) for name, (start, end) in spans.items()}


def _size(text: str) -> int:
    return len(text.encode())


def _in_one_go(text: str, names: Collection[str]) -> _Values | None:
    """What `_walk` finds, by steps that run in C; None where anything is odd, which it tells better."""
    try:
        members, end = _DECODER_OF_PAIRS.raw_decode(text, 0)
        found = dict(members)
        if len(found) != len(members) or not isinstance(members, tuple) or end != len(text):
            return None
    except (TypeError, ValueError, RecursionError, MalformedRequestError):
        return None
    values: _Values = {}
    for name in names:
        if name in found:
            values[name] = value = found[name]
            if isinstance(value, tuple | list):
                return None
    return values


def _by_places(data: bytes, names: Collection[str]) -> JsonBody | None:
    """What `_walk` finds, by a parser that makes no objects; None where anything is odd.

    It would pass over a key that comes twice. So every byte must be part of the members that it found.
    """
    try:
        members = _DECODER_OF_MEMBERS.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    values: _Values = {}
    spans: _Spans = {}
    at = _end_of(_OPENING, data, 0)
    for key, raw in members.items():
        label = b'"%b"' % key.encode()
        start = _end_of(_BEFORE_VALUE, data, at + len(label))
        text = bytes(raw)
        if not data.startswith(label, at) or not data.startswith(text, start):
            return None
        at = _end_of(_BEFORE_KEY, data, start + len(text))
        if key in names:
            if text.startswith((b"[", b"{")):
                return None
            try:
                values[key] = json.loads(text)
            except ValueError:  # of more digits than int() reads
                return None
            spans[key] = start, start + len(text)
    return JsonBody(data, values, spans) if _CLOSING.fullmatch(data, at) else None


def _end_of(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    match = pattern.match(data, at)
    return match.end() if match else at


def _span(data: bytes, name: str) -> tuple[int, int]:
    """Where the text of a member that is there starts and ends."""
    key = b'"%b"' % name.encode()
    at = data.find(key)
    # A key that is written without escapes and stands nowhere else is the one that was found.
    if data.find(key, at + 1) < 0 <= at and b"\\u" not in data:
        plain = _PLAIN_TEXT.match(data, at + len(key))
        if plain:
            return plain.span(1)
    text = data.decode()
    return _in_bytes(_walk(text, (name,), _DECODER_OF_LONG_INTEGERS)[1], text)[name]


def _refuse_constant(name: str) -> NoReturn:
    raise _invalid(f"{name} is not a JSON value")


def _invalid(reason: str) -> MalformedRequestError:
    return MalformedRequestError(f"Invalid JSON in request body: {reason}")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_DECODER_OF_LONG_INTEGERS: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=float)
# Objects become tuples of their members, by no step of Python's: so a key that comes twice is seen.
_DECODER_OF_PAIRS: Final = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=tuple)
_DECODER_OF_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OPENING: Final = re.compile(rb"[ \t\n\r]*\{[ \t\n\r]*")
_BEFORE_VALUE: Final = re.compile(rb"[ \t\n\r]*:[ \t\n\r]*")
_BEFORE_KEY: Final = re.compile(rb"[ \t\n\r]*,[ \t\n\r]*")
_CLOSING: Final = re.compile(rb"[ \t\n\r]*\}[ \t\n\r]*")
_PLAIN_TEXT: Final = re.compile(rb'[ \t\n\r]*:[ \t\n\r]*("[^"\\]*")')
