"""A backend's own names of options, in every place where options are set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.vocabulary import Accelerator, JsonValue
from lemonpod.errors import LaunchError
from lemonpod.launch.bases.base import Base
from lemonpod.launch.bases.table import BASES, is_builtin
from lemonpod.launch.options import (
    ARGS,
    CONFIG,
    DEVICE,
    LOAD_REQUEST,
    SAVED,
    USER_MODELS,
    Options,
    accepted_options,
)
from lemonpod.launch.request import LaunchRequest

BACKEND: Final = "backend"
PREFER_SYSTEM: Final = "prefer_system"

_UNSET: Final = (None, "", "auto")
_OF_ONE_ACCELERATOR: Final = re.compile(r"[a-z]+_(?:args|bin)")
_ROCM_CHANNEL: Final = re.compile(r"rocm-[a-z]+")


def in_common_words(
    request: LaunchRequest, base: Base, accelerator: Accelerator | None = None
) -> LaunchRequest:
    """The request with the options' common names, and with the options that the backend has besides.

    Of config.json the backend's section counts for the backend itself, and a variant has its own. There
    `ACCELERATOR_args` stands in for `args`, once the accelerator is known.
    """
    manifest, entry, settings = request.manifest, request.entry, request.settings
    section = section_of(request, base)
    if is_builtin(manifest):
        args = section.get(f"{accelerator}_args") or section.get(ARGS)
        section = {
            name: value
            for name, value in {**section, ARGS: args}.items()
            if name != PREFER_SYSTEM and not _OF_ONE_ACCELERATOR.fullmatch(name)
        }
    sections = {**settings.recipe_options, manifest.recipe: _renamed(section, base, CONFIG)}
    declared = {option.name for option in manifest.custom_options}
    options = (*manifest.custom_options, *(one for one in base.options if one.name not in declared))
    return replace(
        request,
        manifest=replace(manifest, custom_options=options),
        entry=replace(
            entry,
            recipe_options=_renamed(entry.recipe_options, base, USER_MODELS),
            saved_options=_renamed(entry.saved_options, base, SAVED),
        ),
        overrides=_renamed(request.overrides, base, LOAD_REQUEST),
        settings=replace(settings, recipe_options=MappingProxyType(sections)),
    )


def known_options(manifest: Manifest) -> frozenset[str]:
    """The names of the options that may be said for the recipe, its backend's own among them."""
    accepted = accepted_options(manifest)
    if manifest.variant_of is None:
        return accepted
    base = BASES[manifest.variant_of]
    return accepted | base.renamed.keys() | {option.name for option in base.options}


def section_of(request: LaunchRequest, base: Base) -> Mapping[str, JsonValue]:
    """The section of config.json that holds for the request's recipe."""
    manifest = request.manifest
    return request.settings.recipe_options.get(base.section if is_builtin(manifest) else manifest.recipe, {})


def asked_accelerator(options: Options) -> str | None:
    """What the options say to run on; Lemonade's channels of ROCm are one accelerator."""
    device = options.device
    return "rocm" if device is not None and _ROCM_CHANNEL.fullmatch(device) else device


def own_words(base: Base) -> Mapping[str, str]:
    """The common names of options, and what they are to the backend: the first that it has."""
    return MappingProxyType({common: own for own, common in reversed([*base.renamed.items()])})


def _renamed(options: Mapping[str, JsonValue], base: Base, origin: str) -> Mapping[str, JsonValue]:
    names = {**base.renamed, BACKEND: DEVICE} if origin == CONFIG else base.renamed
    renamed: dict[str, JsonValue] = {}
    said: dict[str, str] = {}
    for name, value in options.items():
        common = names.get(name, name)
        if common in said:
            if value in _UNSET:
                continue
            if renamed[common] not in _UNSET:
                both = f"'{said[common]}' and '{name}'"
                raise LaunchError(f"{both} of {origin} are one option", hint="keep one of them")
        said[common] = name
        renamed[common] = value
    return MappingProxyType(renamed)
