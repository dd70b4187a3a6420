"""Other names for models: aliases.json in the cache folder, an object of target by alias."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import ConfigError, Problem
from lemonpod.models.edited import edited
from lemonpod.models.names import PREFIXES

ALIASES: Final = "aliases.json"


def parse_aliases(document: Mapping[str, JsonValue], place: str) -> tuple[dict[str, str], list[Problem]]:
    """The aliases that the file's object holds, and what in it is none."""
    aliases: dict[str, str] = {}
    problems: list[Problem] = []
    for alias, target in document.items():
        if isinstance(target, str) and target:
            aliases[alias] = target
        else:
            problems.append(Problem(location=f"{place}: {alias}", message="must be the name of a model"))
    return aliases, problems


def add_alias(file: Path, alias: str, target: str) -> None:
    """Let `alias` stand for `target`, which need not exist yet. Raises ConfigError."""
    if not alias or alias != alias.strip() or not alias.isprintable():
        raise ConfigError(f"invalid alias {alias!r}: it is empty, or holds what cannot be printed")
    if prefix := next((prefix for prefix in PREFIXES if alias.casefold().startswith(prefix)), None):
        raise ConfigError(f"invalid alias {alias!r}: the prefix '{prefix}' is of models", hint="take another")
    if any(part in {"", ".", ".."} for part in alias.split("/")):
        raise ConfigError(f"invalid alias {alias!r}: a part between slashes is empty, '.' or '..'")
    with edited(file) as (_, document):
        document[alias] = target


def remove_alias(file: Path, alias: str) -> bool:
    """Forget the alias; whether there was one. Raises ConfigError."""
    with edited(file) as (_, document):
        return document.pop(alias, None) is not None
