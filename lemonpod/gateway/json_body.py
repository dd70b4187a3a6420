"""Looks at the top level of a JSON object without taking it apart.

The bytes of a body go on to the engine (or back to the client) as they came: numbers keep their digits,
strings their escapes. Only the span of one value is ever replaced.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.json_skip import skip_space, skip_value

BIG: Final = 1 << 20
"""Beyond this size a body is walked in small steps, which belong in a thread."""


@dataclass(frozen=True, slots=True)
class Member:
    """A value of the top-level object, and where its text starts and ends."""

    value: JsonValue
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class JsonBody:
    """An object's text, and those of its members that were asked for."""

    text: str
    members: Mapping[str, Member]

    def get(self, name: str) -> JsonValue:
        """The member's value; None where it is absent, as for an explicit null."""
        member = self.members.get(name)
        return member.value if member else None

    def with_text(self, name: str, value: str) -> JsonBody:
        """The same text with the member's value replaced by the string `value`."""
        old = self.members[name]
        literal = json.dumps(value)
        text = f"{self.text[: old.start]}{literal}{self.text[old.end :]}"
        shift = len(literal) - (old.end - old.start)
        members = {
            other: replace(member, start=member.start + shift, end=member.end + shift)
            if member.start > old.start
            else member
            for other, member in self.members.items()
        }
        members[name] = Member(value, old.start, old.start + len(literal))
        return JsonBody(text, members)

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
    members: dict[str, Member] = {}
    seen: set[str] = set()
    position = skip_space(text, position + 1)
    if text.startswith("}", position):
        return _end(text, position, members)
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
            members[key] = Member(value, start, end)
        position = skip_space(text, end)
        if text.startswith("}", position):
            return _end(text, position, members)
        if not text.startswith(",", position):
            raise json.JSONDecodeError("Expected ',' or '}'", text, position)
        position = skip_space(text, position + 1)


def _end(text: str, position: int, members: Mapping[str, Member]) -> JsonBody:
    rest = skip_space(text, position + 1)
    if rest != len(text):
        raise json.JSONDecodeError("Unexpected text after the object", text, rest)
    return JsonBody(text, members)


def _refuse_constant(name: str) -> NoReturn:
    raise _invalid(f"{name} is not a JSON value")


def _invalid(reason: str) -> MalformedRequestError:
    return MalformedRequestError(f"Invalid JSON in request body: {reason}")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_DECODER_OF_LONG_INTEGERS: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=float)
