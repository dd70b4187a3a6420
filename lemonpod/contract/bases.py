"""What a `variant_of` may name (RFC section 7)."""

from __future__ import annotations

from typing import Final

from lemonpod.contract.vocabulary import BUILTIN_RECIPES, LAUNCH_PLAN_BASES

_BASES: Final = ", ".join(LAUNCH_PLAN_BASES)


def base_problem(base: str, *, external: bool) -> str | None:
    """Why nothing can be a variant of `base`, of which `external` says that a manifest describes it."""
    if base in LAUNCH_PLAN_BASES:
        return None
    if base in BUILTIN_RECIPES:
        return f"built-in '{base}' does not expose a launch plan yet; supported bases: {_BASES}"
    if external:
        return (
            f"variant_of must name a built-in backend; '{base}' is an external recipe "
            f"(supported bases: {_BASES})"
        )
    return f"variant_of base '{base}' is not a built-in backend (supported bases: {_BASES})"
