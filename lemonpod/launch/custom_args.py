"""The user's own arguments: one text or list, as argv elements that override nothing reserved."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Sequence

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import LaunchError, ReservedArgError


def split_args(value: JsonValue) -> tuple[str, ...]:
    """The elements of the option `args`: a list as it stands, a text split as a shell would."""
    match value:
        case None:
            return ()
        case str():
            try:
                return tuple(shlex.split(value))
            except ValueError as error:
                raise LaunchError(f"option 'args' does not split into arguments: {error}") from error
        case list():
            return tuple(as_text(element) for element in value)
    raise LaunchError(
        f"option 'args' must be a text or a list, not {as_text(value)}",
        hint='as in "--flag value" or ["--flag", "value"]',
    )


def check_reserved(args: Sequence[str], reserved: Collection[str]) -> None:
    """Raise ReservedArgError for the first argument that a recipe keeps for itself."""
    for arg in args:
        # Each text that stands before a "=", and the whole: a reserved argument may hold one itself.
        flags = [arg[: match.start()] for match in re.finditer("=|$", arg)]
        flag = next((flag for flag in flags if flag in reserved), None)
        if flag is not None:
            raise ReservedArgError(
                f"custom argument '{flag}' collides with a reserved argument",
                hint=f"take it out of 'args'; reserved are: {', '.join(sorted(reserved))}",
            )


def as_text(value: JsonValue) -> str:
    """An option's value as one argument: a text as it stands, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
