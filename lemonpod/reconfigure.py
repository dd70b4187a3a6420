"""The settings of a running server: what clients see, and change for now or in `config.json` too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from lemonpod.config import Layer, Settings, config_file, read_layers, settle
from lemonpod.config_keys import LAUNCH_OPTIONS, THRESHOLD, UNUSED_KEYS, USED_KEYS
from lemonpod.contract.vocabulary import JsonValue
from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import ConfigError, MalformedRequestError
from lemonpod.gateway.params import Kept
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.launch.bases.table import BASES
from lemonpod.launch.request import ContainerPolicy
from lemonpod.models.edited import edited

_OURS: Final = "lemonpod"
_AT_ONCE: Final = frozenset({"log_level", "max_loaded_models", "offline", *LAUNCH_OPTIONS})
"""What works without a restart, options of recipes aside; most of it for the loads that come."""
_FLAT: Final = tuple(f"{base.section}_" for base in BASES.values())
"""Lemonade's clients may say `llamacpp_args` for `{"llamacpp": {"args": …}}`."""

Apply = Callable[[Settings], None]
"""Makes what can change while the server runs so."""


class Configuration:
    """What the gateway calls its `Params`. Belongs to one event loop."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], apply: Apply) -> None:
        self._settings = settings
        self._environ = environ
        self._apply = apply
        self._one_writer = asyncio.Lock()

    def values(self) -> dict[str, JsonValue]:
        return document_of(self._settings)

    def defaults(self) -> dict[str, JsonValue]:
        return document_of(settle([], {}, self._settings.folders))

    def change(self, changes: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Set all or none until the server ends; returns them. Raises MalformedRequestError."""
        changes = _nested(changes)
        now = document_of(self._settings)
        after = self._checked([("settings", _merged(now, changes))])
        for name in changes:
            if not _works_at_once(name) and document_of(after).get(name) != now.get(name):
                raise MalformedRequestError(
                    f"'{name}' cannot change while the server runs",
                    hint="keep it with POST /internal/set, and start the server anew",
                )
        self._use(after)
        return changes

    async def keep(self, changes: Mapping[str, JsonValue]) -> Kept:
        """Write them to config.json, and use now what can be; a null takes a value out of the file.

        Raises MalformedRequestError and changes nothing, or ConfigError where the file cannot be written.
        """
        changes = _nested(changes)
        async with self._one_writer:
            before = document_of(self._settings)
            after = document_of(await asyncio.to_thread(self._write, changes))
            at_once = {name for name in changes if _works_at_once(name)}
            now = {name: value for name, value in before.items() if name not in at_once}
            now |= {name: after[name] for name in at_once & after.keys()}
            self._use(self._checked([("settings", now)]))
        waits = [
            place
            for name, value in changes.items()
            if not _works_at_once(name) and name not in UNUSED_KEYS
            for place in _places(name, value, before, after)
        ]
        unused = [name for name in changes if name in UNUSED_KEYS]
        return Kept(
            changes,
            _sentences(
                (waits, "used from the next start of the server on"), (unused, "changes nothing here")
            ),
        )

    def _write(self, changes: Mapping[str, JsonValue]) -> Settings:
        folders = self._settings.folders
        with edited(config_file(folders)) as (_, document):
            merged = _merged(document, changes)
            layers = read_layers(self._environ, folders)[:-1]
            lower = document_of(self._checked(layers))
            after = self._checked([*layers, ("settings", merged)])  # before: true equals 1
            _drop_equal(merged, changes, lower)
            document.clear()
            document.update(merged)
        return after

    def _checked(self, layers: Sequence[Layer]) -> Settings:
        try:
            return settle(layers, self._environ, self._settings.folders)
        except ConfigError as error:
            raise MalformedRequestError(error.message, hint=error.hint) from error

    def _use(self, settings: Settings) -> None:
        self._settings = settings
        self._apply(settings)


def document_of(settings: Settings) -> dict[str, JsonValue]:
    """The settings as config.json would have them; keys of the API are none of them."""
    return {
        **settings.unused,
        "host": settings.host,
        "port": settings.port,
        "log_level": settings.log_level,
        "models_dir": settings.models_dir,
        "extra_models_dir": str(settings.extra_models_dir or ""),
        "offline": settings.offline,
        "max_loaded_models": settings.max_loaded_models,
        THRESHOLD: settings.memory_threshold,
        **settings.launch_options,
        **{recipe: dict(options) for recipe, options in settings.recipe_options.items()},
        _OURS: {**_shown(settings.engine), **_shown(settings.gateway), **_shown(settings.containers)},
    }


def _shown(settings: EngineSettings | GatewaySettings | ContainerPolicy) -> dict[str, JsonValue]:
    return {
        field.name: value
        for field in fields(settings)
        if isinstance(value := getattr(settings, field.name), bool | int | float | str) and field.repr
    }


def _works_at_once(name: str) -> bool:
    """Of keys that were checked: what is none of Lemonade's or ours is a recipe's section."""
    return name in _AT_ONCE or not (name in USED_KEYS or name in UNUSED_KEYS)


def _nested(changes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The changes as config.json has them."""
    if not changes:
        raise MalformedRequestError("Request body must be a non-empty JSON object")
    nested: dict[str, Any] = {}
    for name, value in changes.items():
        flat = next((flat for flat in _FLAT if name.startswith(flat)), None)
        if flat is not None:
            _section(nested, flat.removesuffix("_"))[name.removeprefix(flat)] = value
        elif isinstance(value, dict):
            _section(nested, name).update(value)
        else:
            nested[name] = value
    return nested


def _section(nested: dict[str, Any], name: str) -> dict[str, Any]:
    section = nested.setdefault(name, {})
    if not isinstance(section, dict):
        raise MalformedRequestError(f"'{name}' must be an object")
    return section


def _merged(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(document)
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            old = merged.get(name)
            merged[name] = _merged(old if isinstance(old, dict) else {}, value)
        else:
            merged[name] = value
    return merged


def _drop_equal(document: dict[str, Any], changed: Mapping[str, Any], lower: Mapping[str, Any]) -> None:
    """Take out of the document what was changed to what it would be without it."""
    for name in changed.keys() & document.keys():
        value, below = document[name], lower.get(name)
        if isinstance(value, dict):
            _drop_equal(value, changed[name], below if isinstance(below, dict) else {})
            if not value:
                del document[name]
        elif below is not None and value == below:
            del document[name]


def _places(
    name: str, value: JsonValue, before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]
) -> Iterable[str]:
    """Which of the changed settings below a key have another value in the file than in use."""
    was, is_ = before.get(name), after.get(name)
    if isinstance(value, dict) and isinstance(was, dict) and isinstance(is_, dict):
        return [f"{name}.{member}" for member in value if was.get(member) != is_.get(member)]
    return [name] if was != is_ else []


def _sentences(*facts: tuple[Sequence[str], str]) -> str | None:
    return "; ".join(f"{', '.join(names)}: {text}" for names, text in facts if names) or None
