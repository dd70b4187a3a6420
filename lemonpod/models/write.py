"""Registering a model and keeping its options: files rewritten without losing what others wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import ConfigError, InvalidModelError
from lemonpod.models.checkpoint import check_syntax
from lemonpod.models.edited import edited
from lemonpod.models.entry import MAIN, ModelEntry, Origin
from lemonpod.models.json_file import as_data
from lemonpod.models.names import bare_name, canonical_id
from lemonpod.models.parse import is_absolute, parse_entry
from lemonpod.models.registry import RECIPE_OPTIONS, USER_MODELS

_RECIPE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{1,63}")
# What a new registration replaces in an entry of the same name; anything else in it stays.
_REPLACED: Final = frozenset(
    {"checkpoint", "checkpoints", "labels", "mmproj", "recipe", "recipe_options", "registry_source", "source"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What `register` did."""

    id: str
    path: Path
    replaced: bool
    """There was a model of that name."""


def register(
    config_dir: Path,
    name: str,
    *,
    recipe: str,
    checkpoints: Mapping[str, str],
    labels: Sequence[str] = (),
    recipe_options: Mapping[str, JsonValue] | None = None,
    free_checkpoints: bool = False,
) -> Registration:
    """Write a model into the config folder's user_models.json.

    Raises InvalidModelError for a model that nobody could load, ConfigError where the file cannot be
    written, and then changes nothing.
    `free_checkpoints` is for recipes that manage their own weights, whose checkpoints are theirs to read.
    The file is replaced in one step, under a lock that every `register` takes.
    """
    draft = new_entry(
        name,
        recipe=recipe,
        checkpoints=checkpoints,
        labels=labels,
        recipe_options=recipe_options,
        free_checkpoints=free_checkpoints,
    )
    return write_entry(config_dir, draft)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A model that could be registered: as it would be read, and as it would be written."""

    entry: ModelEntry
    document: Mapping[str, JsonValue]


def new_entry(
    name: str,
    *,
    recipe: str,
    checkpoints: Mapping[str, str],
    labels: Sequence[str] = (),
    recipe_options: Mapping[str, JsonValue] | None = None,
    free_checkpoints: bool = False,
) -> Draft:
    """The model that `register` would write; raises InvalidModelError."""
    try:
        canonical_id(name)
        return _draft(name, recipe, checkpoints, labels, recipe_options or {}, free_checkpoints)
    except ConfigError as error:
        raise InvalidModelError(error.message, hint=error.hint) from error


def write_entry(config_dir: Path, draft: Draft) -> Registration:
    """Put a draft into user_models.json, in the place of a model of its name; raises ConfigError."""
    model = draft.entry.id
    with edited(config_dir / USER_MODELS) as (path, document):
        keys = [key for key in document if bare_name(key) == bare_name(model)]
        key = keys[0] if keys else bare_name(model)
        old = document.get(key)
        kept = {k: v for k, v in old.items() if k not in _REPLACED} if isinstance(old, dict) else {}
        document[key] = {**draft.document, **kept}
    return Registration(id=model, path=path, replaced=bool(keys))


def save_options(config_dir: Path, model: str, options: Mapping[str, JsonValue]) -> None:
    """Keep options of the model (a canonical id) for later loads, in recipe_options.json.

    Those saved before stay, but for what `options` says anew; a null takes one out. Raises ConfigError and
    then changes nothing.
    """
    with edited(config_dir / RECIPE_OPTIONS) as (_, document):
        key = bare_name(model) if model not in document and bare_name(model) in document else model
        old = document.get(key)
        merged = (old if isinstance(old, dict) else {}) | dict(options)
        document[key] = {name: value for name, value in merged.items() if value is not None}


def unregister(config_dir: Path, model: str) -> None:
    """Take the model (a canonical id) and its saved options out of the two files. Raises ConfigError."""
    for name in (USER_MODELS, RECIPE_OPTIONS):
        if (config_dir / name).exists():
            with edited(config_dir / name) as (_, document):
                for key in [key for key in document if bare_name(key) == bare_name(model)]:
                    del document[key]


def reset_options(config_dir: Path, model: str) -> None:
    """Forget every saved option of the model, a canonical id. Raises ConfigError."""
    if (config_dir / RECIPE_OPTIONS).exists():
        with edited(config_dir / RECIPE_OPTIONS) as (_, document):
            for key in (model, bare_name(model)):
                document.pop(key, None)


def _draft(
    name: str,
    recipe: str,
    checkpoints: Mapping[str, str],
    labels: Sequence[str],
    recipe_options: Mapping[str, JsonValue],
    free_checkpoints: bool,
) -> Draft:
    """The entry, checked by the rules of reading and some more."""
    if not _RECIPE.fullmatch(recipe):
        raise ConfigError(
            f"invalid recipe {recipe!r}",
            hint="2 to 64 of a-z, 0-9, '_' and '-', beginning with a letter or a digit",
        )
    if not all(checkpoints.values()):
        raise ConfigError("a checkpoint is empty", hint="leave it out, or name a repository or a file")
    entry: dict[str, JsonValue] = {}
    if checkpoints.keys() == {MAIN}:
        entry["checkpoint"] = checkpoints[MAIN]
    elif checkpoints:
        entry["checkpoints"] = dict(checkpoints)
    entry["recipe"] = recipe
    if labels:
        entry["labels"] = list(dict.fromkeys(labels))
    if recipe_options:
        entry["recipe_options"] = dict(recipe_options)
    if is_absolute(checkpoints.get(MAIN, "")):
        entry["source"] = Origin.LOCAL_PATH.value
    as_data(entry)  # refuses what could not be read again
    model, problems = parse_entry(name, entry)
    if model is None or problems:
        raise ConfigError("; ".join(str(problem) for problem in problems))
    if not free_checkpoints:
        for ref in model.checkpoints.values():
            check_syntax(ref)
    return Draft(entry=model, document=entry)
