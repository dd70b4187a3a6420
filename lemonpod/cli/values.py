"""`NAME=VALUE` arguments."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import NoReturn

import typer

from lemonpod.contract.vocabulary import JsonValue


def parse_options(arguments: Sequence[str]) -> dict[str, JsonValue]:
    """The options as a mapping. A value that is JSON is taken as JSON, anything else as text."""
    options: dict[str, JsonValue] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{argument!r} is not NAME=VALUE", param_hint="--option")
        if name in options:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint="--option")
        try:
            options[name] = json.loads(text, parse_constant=_no_json, parse_float=_finite)
        except (ValueError, RecursionError):
            options[name] = text
    return options


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return number
