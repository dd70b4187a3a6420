"""Strict reading of the JSON files that people and programs share."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Final, NoReturn

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import ConfigError

MAX_BYTES: Final = 8 << 20
"""Some ten thousand models; more than that is not a hand-kept file any more but a mistake."""

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
        raise ConfigError(f"larger than {MAX_BYTES >> 20} MiB")
    return data


def parse_object(data: bytes) -> dict[str, JsonValue]:
    """The JSON object in `data`; raises ConfigError.

    Refused is what another reader could take for something else: duplicate keys, NaN, numbers without
    an end, half characters. A UTF-8 byte order mark is let through, for editors write one.
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
        if _SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}"
        ) from error
    except RecursionError as error:
        raise ConfigError("nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 at byte {error.start}") from error
    except UnicodeEncodeError as error:
        raise ConfigError("holds half of a surrogate pair") from error
    except ValueError as error:  # ours from the hooks
        raise ConfigError(str(error)) from error
    if not isinstance(document, dict):
        raise ConfigError("must hold a JSON object")
    return document


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    document: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in document:
            raise ValueError(f"the key {key!r} appears twice in one object")
        document[key] = value
    return document


def _not_too_long(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits is too long")
    return int(text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text} is too large")
    return number
