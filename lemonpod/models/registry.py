"""Which models there are: user_models.json, recipe_options.json, aliases.json and a folder as one value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import ConfigError, Problem
from lemonpod.models.aliases import ALIASES, parse_aliases
from lemonpod.models.entry import ModelEntry
from lemonpod.models.extra import find_extra
from lemonpod.models.json_file import parse_object, read_bytes
from lemonpod.models.names import EXTRA_PREFIX, LATEST, USER_PREFIX, bare_name
from lemonpod.models.parse import parse_entry

USER_MODELS: Final = "user_models.json"
RECIPE_OPTIONS: Final = "recipe_options.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models by canonical id, what is wrong with the files, and why entries were refused."""

    entries: Mapping[str, ModelEntry]
    problems: tuple[Problem, ...]
    refused: Mapping[str, Problem]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Further names, and which model each stands for: as somebody wrote it, so perhaps none."""

    def find(self, name: str) -> ModelEntry | None:
        """The model that a client means by `name`: the one place where names become models.

        Exact, then under `user.`, then under `extra.`, then all without `:latest`, then in any case if only
        one model fits; last the aliases, which never hide a model.
        """
        if (entry := self.named(name)) is not None:
            return entry
        target = next((self.aliases[alias] for alias in _bare(name) if alias in self.aliases), None)
        return None if target is None else self.named(target)

    def is_alias(self, name: str) -> bool:
        """Whether the name is an alias, and no model's own."""
        return name in self.aliases and self.named(name) is None

    def named(self, name: str) -> ModelEntry | None:
        """As `find`, without the aliases."""
        for candidate in _spellings(name):
            if entry := self.entries.get(candidate):
                return entry
        folded = {candidate.casefold() for candidate in _spellings(name)}
        similar = [entry for id_, entry in self.entries.items() if id_.casefold() in folded]
        return similar[0] if len(similar) == 1 else None


def _bare(name: str) -> Iterator[str]:
    yield name
    if name[-len(LATEST) :].casefold() == LATEST:
        yield name[: -len(LATEST)]


def _spellings(name: str) -> Iterator[str]:
    for bare in _bare(name):
        yield bare
        yield USER_PREFIX + bare
        yield EXTRA_PREFIX + bare


class ModelRegistry:
    """Reads the files of the config and the cache folder, and keeps the last good content of each.

    For one thread at a time.
    """

    def __init__(
        self, config_dir: Path, *, cache_dir: Path | None = None, extra_dir: Path | None = None
    ) -> None:
        """`cache_dir` holds the aliases; `extra_dir` model files that nobody registered."""
        self.config_dir = config_dir
        self.aliases_file = None if cache_dir is None else cache_dir / ALIASES
        self._extra_dir = extra_dir
        self._extra: Mapping[str, ModelEntry] = {}
        self._user_models = _File(config_dir / USER_MODELS)
        self._recipe_options = _File(config_dir / RECIPE_OPTIONS)
        self._aliases = None if self.aliases_file is None else _File(self.aliases_file)
        self._models: Models | None = None

    def load(self) -> Models:
        """The models as the files say now; while they say the same, the same object. Never raises."""
        # Both files are read each time: contents cannot be mistaken for unchanged as time stamps can.
        files = [file for file in (self._user_models, self._recipe_options, self._aliases) if file]
        changed = [file.reread() for file in files]
        extra = {} if self._extra_dir is None else find_extra(self._extra_dir)
        if self._models is None or any(changed) or extra != self._extra:
            self._extra = extra
            self._models = _combined(self._user_models, self._recipe_options, self._aliases, extra)
        return self._models


class _File:
    """One file's last good content, and what is wrong with it today."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: Mapping[str, JsonValue] = {}
        self.problem: Problem | None = None
        self._seen: bytes | str | None = None

    def reread(self) -> bool:
        """Read the file again; whether anything has changed."""
        try:
            data = read_bytes(self.path)
        except ConfigError as error:
            if error.message == self._seen:
                return False
            self._seen = error.message
            self._keep(error)
            return True
        if data == self._seen:
            return False
        self._seen = data
        try:
            self.document = {} if data is None else parse_object(data)
            self.problem = None
        except ConfigError as error:
            self._keep(error)
        return True

    def _keep(self, error: ConfigError) -> None:
        kept = "the last good version stays in use" if self.document else "nothing in it is used"
        self.problem = Problem(
            location=str(self.path), message=f"{error.message}; {kept}", hint="repair the file"
        )


def _combined(
    user_models: _File, recipe_options: _File, alias_file: _File | None, extra: Mapping[str, ModelEntry]
) -> Models:
    problems = [file.problem for file in (user_models, recipe_options) if file.problem]
    aliases: dict[str, str] = {}
    if alias_file is not None:
        aliases, odd = parse_aliases(alias_file.document, str(alias_file.path))
        problems += [alias_file.problem] if alias_file.problem else []
        problems += odd
    options: dict[str, Mapping[str, JsonValue]] = {}
    for key, value in recipe_options.document.items():
        if isinstance(value, dict):
            options[key] = MappingProxyType(value)
        else:
            problems.append(Problem(location=f"{recipe_options.path}: {key}", message="must be an object"))
    entries: dict[str, ModelEntry] = {}
    refused: dict[str, Problem] = {}
    for key, value in user_models.document.items():
        model_id = USER_PREFIX + bare_name(key)
        saved = options.get(model_id, options.get(bare_name(key), MappingProxyType({})))
        entry, found = parse_entry(key, value, saved)
        placed = [replace(problem, location=f"{user_models.path}: {problem.location}") for problem in found]
        if entry is None:
            refused[model_id] = placed[0]
        elif model_id in entries:
            placed.append(
                Problem(
                    location=f"{user_models.path}: {key}",
                    message=f"the model '{model_id}' is registered twice; the first entry is used",
                    hint=f"remove '{key}' or '{bare_name(key)}'",
                )
            )
        else:
            entries[model_id] = entry
        problems += placed
    for id_, entry in extra.items():
        entries[id_] = replace(entry, saved_options=options.get(id_, entry.saved_options))
    return Models(
        entries=MappingProxyType(entries),
        problems=tuple(problems),
        refused=MappingProxyType(refused),
        aliases=MappingProxyType(aliases),
    )
