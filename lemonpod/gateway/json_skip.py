"""Steps over a JSON value without making objects of it.

The decoder of the standard library holds everybody else up until it is through: seconds, for a body of many
small values. This one can be interrupted between any two steps, so it does its work in a thread.
"""

from __future__ import annotations

import json
import re
from typing import Final

MAX_DEPTH: Final = 900
"""About what the decoder bears."""

# No quantifier is possessive: Python 3.11.2 gets possessive groups wrong. Nor need one be: no two
# neighbours match the same character, so giving back never finds another way.
_SPACE: Final = re.compile(r"[ \t\n\r]*")
# Items of a list, each with its comma: plain values, and short lists and objects of them. Their number is
# bounded, since to match them is one step.
_S: Final = r"[ \t\n\r]*"
_STRING: Final = r'"[^"\\\x00-\x1f]*"'
_PLAIN: Final = rf"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|{_STRING}|true|false|null){_S}"
_PAIR: Final = rf"{_STRING}{_S}:{_S}{_PLAIN}"
_ITEM: Final = (
    rf"(?:{_PLAIN}"
    rf"|\[{_S}(?:{_PLAIN}(?:,{_S}{_PLAIN}){{0,500}})?\]{_S}"
    rf"|\{{{_S}(?:{_PAIR}(?:,{_S}{_PAIR}){{0,500}})?\}}{_S})"
)
_ITEMS: Final = re.compile(rf"(?:{_ITEM},{_S}){{1,100}}")


def skip_value(text: str, position: int, decoder: json.JSONDecoder) -> int:
    """Where the value that starts at `position` ends; raises as `decoder` does, who reads all but lists
    and objects.

    Raises RecursionError where they are nested too deeply.
    """
    ends: list[str] = []
    while True:
        opened = text[position : position + 1]
        if opened not in ("[", "{"):
            _, position = decoder.raw_decode(text, position)
        else:
            end = "]" if opened == "[" else "}"
            position = skip_space(text, position + 1)
            if not text.startswith(end, position):
                if len(ends) == MAX_DEPTH:
                    raise RecursionError
                ends.append(end)
                position = _next(text, position, end, decoder)
                continue
            position += 1
        while ends and text.startswith(ends[-1], position := skip_space(text, position)):
            ends.pop()
            position += 1
        if not ends:
            return position
        if not text.startswith(",", position):
            raise json.JSONDecodeError(f"Expected ',' or '{ends[-1]}'", text, position)
        position = _next(text, skip_space(text, position + 1), ends[-1], decoder)


def skip_space(text: str, position: int) -> int:
    """Where the next thing that means something starts."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _next(text: str, position: int, end: str, decoder: json.JSONDecoder) -> int:
    """Where the next value starts that must be looked at: behind a key, or behind simple items of a list."""
    if end == "]":
        match = _ITEMS.match(text, position)
        return match.end() if match else position
    if not text.startswith('"', position):
        raise json.JSONDecodeError("Expected a key in double quotes", text, position)
    _, position = decoder.raw_decode(text, position)
    position = skip_space(text, position)
    if not text.startswith(":", position):
        raise json.JSONDecodeError("Expected ':'", text, position)
    return skip_space(text, position + 1)
