"""`extends` (RFC section 6): a recipe starts from another one's options, and from nothing else of it.

Bases are resolved before what stands on them, along the chain and without recursion, so a chain may be as
long as it likes. A recipe in a cycle has no base to start from and is dropped, and so is all that stands on
a dropped or absent one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.vocabulary import BUILTIN_RECIPES, LAUNCH_PLAN_BASES
from lemonpod.errors import Problem

_SHOWN_IN_CYCLE: Final = 6


def resolve_extends(
    manifests: Mapping[str, Manifest],
) -> tuple[dict[str, Manifest], dict[str, Problem]]:
    """The manifests with what they inherit, in the same order; and why the others are dropped."""
    resolved: dict[str, Manifest] = {}
    dropped: dict[str, Problem] = {}
    for recipe in manifests:
        chain = _unresolved_chain(recipe, manifests, resolved, dropped)
        for name in reversed(chain):
            manifest = manifests[name]
            if name in dropped:
                continue
            if manifest.extends is None:
                resolved[name] = manifest
            elif manifest.extends in resolved:
                resolved[name] = _merged(resolved[manifest.extends], manifest)
            else:
                dropped[name] = _no_base(manifest.extends, is_dropped=manifest.extends in dropped)
    return {name: resolved[name] for name in manifests if name in resolved}, dropped


def _unresolved_chain(
    recipe: str,
    manifests: Mapping[str, Manifest],
    resolved: Mapping[str, Manifest],
    dropped: dict[str, Problem],
) -> list[str]:
    """`recipe`, its base, the base's base, down to what is settled; the members of a cycle are dropped."""
    chain: dict[str, None] = {}
    name: str | None = recipe
    while name is not None and name in manifests and name not in resolved and name not in dropped:
        if name in chain:
            names = list(chain)
            cycle = names[names.index(name) :]
            for position, member in enumerate(cycle):
                dropped[member] = _in_cycle(cycle[position:] + cycle[:position])
            break
        chain[name] = None
        name = manifests[name].extends
    return list(chain)


def _merged(base: Manifest, child: Manifest) -> Manifest:
    options = {option.name: option for option in base.custom_options}
    options |= {option.name: option for option in child.custom_options}
    return replace(
        child,
        recipe_options=MappingProxyType({**base.recipe_options, **child.recipe_options}),
        custom_options=tuple(options.values()),
    )


def _in_cycle(cycle: list[str]) -> Problem:
    if len(cycle) == 1:
        return _problem(cycle[0], "the recipe extends itself")
    names = [*cycle[:_SHOWN_IN_CYCLE], *(["…"] if len(cycle) > _SHOWN_IN_CYCLE else []), cycle[0]]
    return _problem(cycle[1], f"a cycle, {' -> '.join(names)}")


def _no_base(base: str, *, is_dropped: bool) -> Problem:
    if is_dropped:
        return _problem(base, "what it extends itself cannot be resolved")
    if base in BUILTIN_RECIPES:
        hint = (
            "use 'variant_of' to take a built-in backend's command line"
            if base in LAUNCH_PLAN_BASES
            else None
        )
        return _problem(base, "it is built in and has no manifest to inherit from", hint)
    return _problem(base, "no accepted manifest has that recipe", "see which manifests were refused, and why")


def _problem(base: str, why: str, hint: str | None = None) -> Problem:
    return Problem(location="extends", message=f"cannot resolve extends '{base}': {why}", hint=hint)
