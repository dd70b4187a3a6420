"""Registering a model and keeping its options: files rewritten without losing what others wrote."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import ConfigError, InvalidModelError
from lemonpod.models.checkpoint import check_syntax
from lemonpod.models.entry import MAIN, Origin
from lemonpod.models.json_file import parse_object, read_bytes
from lemonpod.models.names import bare_name, canonical_id
from lemonpod.models.parse import is_absolute, parse_entry
from lemonpod.models.registry import RECIPE_OPTIONS, USER_MODELS

_RECIPE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{1,63}")
_LOCK_TIMEOUT: Final = 10.0
_LOCK_POLL: Final = 0.01
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
    try:
        model_id = canonical_id(name)
        entry = _entry(name, recipe, checkpoints, labels, recipe_options or {}, free_checkpoints)
    except ConfigError as error:
        raise InvalidModelError(error.message, hint=error.hint) from error
    with _edited(config_dir / USER_MODELS) as (path, document):
        keys = [key for key in document if bare_name(key) == bare_name(name)]
        key = keys[0] if keys else bare_name(name)
        old = document.get(key)
        kept = {k: v for k, v in old.items() if k not in _REPLACED} if isinstance(old, dict) else {}
        document[key] = entry | kept
    return Registration(id=model_id, path=path, replaced=bool(keys))


def save_options(config_dir: Path, model: str, options: Mapping[str, JsonValue]) -> None:
    """Keep options of the model (a canonical id) for later loads, in recipe_options.json.

    Those saved before stay, but for what `options` says anew; a null takes one out. Raises ConfigError and
    then changes nothing.
    """
    with _edited(config_dir / RECIPE_OPTIONS) as (_, document):
        key = bare_name(model) if model not in document and bare_name(model) in document else model
        old = document.get(key)
        merged = (old if isinstance(old, dict) else {}) | dict(options)
        document[key] = {name: value for name, value in merged.items() if value is not None}


@contextlib.contextmanager
def _edited(file: Path) -> Iterator[tuple[Path, dict[str, JsonValue]]]:
    """The file's object, to be changed in the block and then put in the file's place."""
    # A link stays a link: it is the file behind it that is locked and replaced.
    path = Path(os.path.realpath(file))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            document = _existing(path)
            yield path, document
            _replace(path, json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


def _entry(
    name: str,
    recipe: str,
    checkpoints: Mapping[str, str],
    labels: Sequence[str],
    recipe_options: Mapping[str, JsonValue],
    free_checkpoints: bool,
) -> dict[str, JsonValue]:
    """The entry to write, checked by the rules of reading and some more."""
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
    try:
        json.dumps(entry, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the model cannot be written as JSON: {error}") from error
    model, problems = parse_entry(name, entry)
    if model is None or problems:
        raise ConfigError("; ".join(str(problem) for problem in problems))
    if not free_checkpoints:
        for ref in model.checkpoints.values():
            check_syntax(ref)
    return entry


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file beside `path`: the file itself is replaced, so a lock on it would not last."""
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + _LOCK_TIMEOUT
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ConfigError(
                        f"{path}: another program has held its lock for {_LOCK_TIMEOUT:.0f} s"
                    ) from None
                time.sleep(_LOCK_POLL)
        yield
    finally:
        os.close(descriptor)


def _existing(path: Path) -> dict[str, JsonValue]:
    try:
        data = read_bytes(path)
        return {} if data is None else parse_object(data)
    except ConfigError as error:
        raise ConfigError(
            f"{path}: {error.message}", hint="nothing was changed; repair the file or move it away first"
        ) from error


def _replace(path: Path, text: str) -> None:
    """Put `text` in the place of `path` in one step, with the mode and owner of what was there."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            _copy_ownership(path, file.fileno())
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _copy_ownership(path: Path, descriptor: int) -> None:
    try:
        old = path.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, 0o644)
        return
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):  # only root can give a file away
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
