"""Strict reading of the JSON files that people and programs share."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import ConfigError

MAX_BYTES: Final = 8 << 20
"""Some ten thousand models; more than that is not a hand-kept file any more but a mistake."""

_TOO_LARGE: Final = f"larger than {MAX_BYTES >> 20} MiB"
_MAX_DEPTH: Final = 64
"""Whoever writes a value within others, or reads it there, has room for some hundred levels."""
_TOO_DEEP: Final = f"nested deeper than {_MAX_DEPTH} levels"
_MAX_DIGITS: Final = 100
"""No setting needs more, and Python refuses to convert some thousand."""

_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def read_bytes(path: Path) -> bytes | None:
    """The file's content, or None if there is none; raises ConfigError, the path left to the caller."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror or error}", hint="let the user who runs this read it"
        ) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(_TOO_LARGE)
    return data


def parse_object(data: bytes) -> dict[str, JsonValue]:
    """The JSON object in `data`; raises ConfigError, naming the line or the key.

    Refused is what another reader could take for something else, or not at all: duplicate keys, NaN, numbers
    without an end, half characters, a depth without an end. A UTF-8 byte order mark is let through, for
    editors write one.
    """
    try:
        text = data.decode("utf-8-sig")
        document = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_not_too_long,
        )
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}"
        ) from error
    except RecursionError as error:
        raise ConfigError(_TOO_DEEP) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 at byte {error.start}") from error
    except ValueError as error:  # ours, of a key that comes twice
        raise ConfigError(str(error)) from error
    if not isinstance(document, dict):
        raise ConfigError("must hold a JSON object")
    has_halves = _SURROGATE.search(text) is not None
    for key, value in document.items():
        refused = _refused(value) or (has_halves and _half({key: value}))
        if refused:
            raise ConfigError(f"{key!r}: {refused}")
    return document


def as_data(document: Mapping[str, JsonValue]) -> bytes:
    """The object as a file holds it; raises ConfigError for what could not be read again."""
    try:
        text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
        data = text.encode() + b"\n"
    except RecursionError as error:
        raise ConfigError(_TOO_DEEP) from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"cannot be written as JSON: {error}") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(_TOO_LARGE)
    parse_object(data)
    return data


@dataclass(frozen=True, slots=True)
class _Refused:
    """Stands for a number that is none, until it is known where."""

    reason: str


def _refused(value: object) -> str | None:
    """What in the value cannot be; found level by level, since there may be any number of them."""
    inner = [value]
    for _ in range(_MAX_DEPTH):
        around = []
        for one in inner:
            if isinstance(one, _Refused):
                return one.reason
            if isinstance(one, dict | list):
                around.append(one)
        if not around:
            return None
        inner = [item for one in around for item in (one.values() if isinstance(one, dict) else one)]
    return _TOO_DEEP


def _half(value: object) -> str | None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair"
    return None


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    document: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in document:
            raise ValueError(f"the key {key!r} appears twice in one object")
        document[key] = value
    return document


def _not_too_long(text: str) -> int | _Refused:
    return int(text) if len(text) <= _MAX_DIGITS else _Refused(f"a number of {len(text)} digits is too long")


def _no_constant(name: str) -> _Refused:
    return _Refused(f"{name} is not JSON")


def _finite(text: str) -> float | _Refused:
    number = float(text)
    return number if math.isfinite(number) else _Refused(f"the number {text} is too large")
