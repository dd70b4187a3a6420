"""A model's effective options: eight layers, the strongest first, each value with where it came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lemonpod.contract.location import shown
from lemonpod.contract.manifest import Manifest
from lemonpod.contract.templates import templates_of
from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import LaunchError
from lemonpod.launch.custom_args import as_text, split_args
from lemonpod.launch.devices import visible_devices
from lemonpod.launch.request import LaunchRequest

LOAD_REQUEST: Final = "load request"
SAVED: Final = "recipe_options.json"
USER_MODELS: Final = "user_models.json"
CONFIG: Final = "config.json"
MANIFEST: Final = "manifest recipe_options"
CUSTOM: Final = "manifest custom_options"
HOST: Final = "host"
DEFAULT: Final = "default"

CTX_SIZE: Final = "ctx_size"
ARGS: Final = "args"
DEVICE: Final = "device"
MERGE_ARGS: Final = "merge_args"

AUTO_CTX_SIZE: Final = 4096
"""For `ctx_size: -1`, always: by a size that came from free memory each plan would be another, and a model be
reloaded instead of kept, and never adopted."""

_AUTO: Final = "auto"
_DEFAULTS: Final[Mapping[str, JsonValue]] = MappingProxyType(
    {
        CTX_SIZE: 2048,
        "batch_size": 512,
        "ubatch_size": 512,
        "threads": 4,
        "cache_type_k": "f16",
        "cache_type_v": "f16",
        # Which device an engine sees: the first, where nobody says.
        "target_device": "0",
        "hip_visible_devices": "0",
        "cuda_visible_devices": "0",
        "rocr_visible_devices": "0",
        "ggml_vk_visible_devices": "0",
        "ze_affinity_mask": "0",
    }
)
_WHOLE_NUMBERS: Final = frozenset({CTX_SIZE, "batch_size", "ubatch_size", "threads"})
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
RESIDENCY_OPTIONS: Final = frozenset(
    {
        "auto_evict",
        "auto_update",
        "downsize_idle_timeout",
        "evict_idle_timeout",
        "evict_weight_factor",
        "pinned",
    }
)
"""How long an engine stays, which the pool reads: they change nothing about the engine itself."""
# Options that every recipe takes.
_COMMON: Final = _DEFAULTS.keys() | {ARGS, DEVICE, MERGE_ARGS} | RESIDENCY_OPTIONS


@dataclass(frozen=True, slots=True)
class Option:
    value: JsonValue
    origin: str

    @property
    def chosen(self) -> bool:
        """Whether somebody chose it, and it does not just hold for all recipes."""
        return self.origin not in (HOST, DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The effective options by name. `args` are the user's arguments, weakest first, if they are merged.

    `literal` holds what only says "unset" (-1, "auto") in every layer, for options whose meaning is the
    recipe's: there it may be a value like any other.
    """

    values: Mapping[str, Option]
    literal: Mapping[str, Option]
    args: tuple[Option, ...]
    notes: tuple[str, ...]

    def get(self, name: str) -> Option | None:
        return self.values.get(name)

    @property
    def device(self) -> str | None:
        option = self.get(DEVICE)
        return None if option is None else as_text(option.value).lower()

    def chosen(self) -> dict[str, JsonValue]:
        """What somebody chose, and the context size in any case."""
        return {
            name: option.value for name, option in self.values.items() if option.chosen or name == CTX_SIZE
        }


def accepted_options(manifest: Manifest) -> frozenset[str]:
    """The names of the options that the recipe knows."""
    declared = {option.name for option in manifest.custom_options}
    return frozenset(_COMMON | manifest.recipe_options.keys() | declared | _custom_tokens(manifest))


def effective_options(request: LaunchRequest) -> Options:
    """Every option that a layer sets, from the strongest that does; raises LaunchError for a bad one.

    A null in the load request takes back what is saved for the model, for this load.
    """
    manifest, entry, settings = request.manifest, request.entry, request.settings
    accepted = accepted_options(manifest)
    if unknown := sorted(request.overrides.keys() - accepted):
        raise LaunchError(
            f"unknown option '{unknown[0]}' in the load request",
            hint=f"this recipe takes: {', '.join(sorted(accepted))}",
        )
    taken_back = {name for name, value in request.overrides.items() if value is None}
    config = {**settings.options, **settings.recipe_options.get(manifest.recipe, {})}
    layers: tuple[tuple[str, Mapping[str, JsonValue]], ...] = (
        (LOAD_REQUEST, request.overrides),
        (SAVED, {name: value for name, value in entry.saved_options.items() if name not in taken_back}),
        (USER_MODELS, entry.recipe_options),
        (CONFIG, {name: value for name, value in config.items() if name in accepted}),
        (MANIFEST, manifest.recipe_options),
        (CUSTOM, {option.name: option.default for option in manifest.custom_options}),
        (HOST, visible_devices(request.facts)),
        (DEFAULT, _DEFAULTS),
    )
    values: dict[str, Option] = {}
    literal: dict[str, Option] = {}
    for origin, layer in layers:
        for name, value in layer.items():
            if not _is_unset(name, value):
                values.setdefault(name, Option(_normal(name, value, origin), origin))
            elif name not in _COMMON and value not in (None, ""):
                literal.setdefault(name, Option(value, origin))
    notes = tuple(
        f"option '{name}' of {origin} is unknown to recipe '{manifest.recipe}', ignored"
        for origin, layer in layers
        for name in sorted(layer.keys() - accepted)
    ) + tuple(
        f"option '{name}' of {CONFIG}, section '{manifest.recipe}', is unknown to this recipe, ignored"
        for name in sorted(settings.recipe_options.get(manifest.recipe, {}).keys() - accepted)
    )
    return Options(
        values=MappingProxyType({name: values[name] for name in sorted(values)}),
        literal=MappingProxyType(literal),
        args=_args(values, config),
        notes=notes,
    )


def _is_unset(name: str, value: JsonValue) -> bool:
    """Lemonade's ways to say "not set": empty, null, "auto", and -1 where it is not the automatic size."""
    if isinstance(value, bool):
        return False
    return value in (None, "", _AUTO) or (value == -1 and name != CTX_SIZE)


def _normal(name: str, value: JsonValue, origin: str) -> JsonValue:
    """The value as an engine takes it."""
    if name == ARGS:
        split_args(value)
    if name not in _WHOLE_NUMBERS:
        return value
    number: int | None = None
    match value:
        case bool():
            pass
        case int():
            number = value
        case float() if value.is_integer():
            number = int(value)
        case str() if _WHOLE_NUMBER.fullmatch(value.strip()):
            number = int(value)
    if number == -1 and name == CTX_SIZE:
        return AUTO_CTX_SIZE
    if number is None or number < 0:
        raise LaunchError(f"option '{name}' of {origin} must be a whole number, not {shown(value)}")
    return number


def _args(values: Mapping[str, Option], config: Mapping[str, JsonValue]) -> tuple[Option, ...]:
    chosen = values.get(ARGS)
    if chosen is None:
        return ()
    merge = values.get(MERGE_ARGS)
    is_wanted = merge is None or merge.value is True
    if is_wanted and config.get(ARGS) and chosen.origin in {LOAD_REQUEST, SAVED, USER_MODELS}:
        return (Option(config[ARGS], CONFIG), chosen)
    return (chosen,)


def _custom_tokens(manifest: Manifest) -> set[str]:
    """Names that templates ask for: an option need not be declared to be used (RFC section 4.2)."""
    tokens = (token for _, template in templates_of(manifest) for token in template.tokens)
    return {token.argument for token in tokens if token.name == "custom" and token.argument}
