"""The built-in backends that have a launch plan, each as the manifest that it would have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lemonpod.contract.manifest import Block, Manifest
from lemonpod.contract.vocabulary import API_CONTRACT_VERSION, ModelManagement, SlotPolicy
from lemonpod.launch.bases.base import Base
from lemonpod.launch.bases.llamacpp import LLAMACPP
from lemonpod.launch.bases.sdcpp import SDCPP
from lemonpod.launch.bases.whispercpp import WHISPERCPP

BASES: Final[Mapping[str, Base]] = MappingProxyType(
    {base.recipe: base for base in (LLAMACPP, WHISPERCPP, SDCPP)}
)


def _manifest(base: Base) -> Manifest:
    """A variant of itself, with a block for whatever there may be a program for."""
    block = Block(binary=base.program)
    return Manifest(
        recipe=base.recipe,
        display_name=base.display_name,
        api_contract_version=API_CONTRACT_VERSION,
        capabilities=base.capabilities,
        platforms=MappingProxyType(
            {os: MappingProxyType(dict.fromkeys(names, block)) for os, names in base.accelerators.items()}
        ),
        capability_enable_args=MappingProxyType({}),
        probe=base.probe,
        reserved_args=(),
        slot_policy=SlotPolicy.STANDARD,
        model_management=ModelManagement.LEMOND_MANAGED,
        default_accelerator=None,
        recipe_options=MappingProxyType({}),
        custom_options=(),
        endpoints=MappingProxyType({}),
        downsize_endpoint=None,
        arch_aliases=MappingProxyType({}),
        extends=None,
        variant_of=base.recipe,
        source=None,
        sha256=None,
        version_policy=None,
        extensions=MappingProxyType({}),
    )


BUILTIN_MANIFESTS: Final[Mapping[str, Manifest]] = MappingProxyType(
    {recipe: _manifest(base) for recipe, base in BASES.items()}
)


def is_builtin(manifest: Manifest) -> bool:
    """Whether it is one of ours: no manifest file may be a variant of itself."""
    return manifest.variant_of == manifest.recipe
