"""What a look at the disk has changed, and saying so once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lemonpod.discovery.catalog import Catalog, Changes, Rejected, changes
from lemonpod.errors import Problem
from lemonpod.models.entry import ModelEntry
from lemonpod.models.registry import Models

_log: Final = logging.getLogger(__name__)
_NONE: Final = Changes(added=(), changed=(), removed=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """The difference to the look before: recipes, models by id, and what is wrong that was not."""

    recipes: Changes = _NONE
    models: Changes = _NONE
    rejected: tuple[Rejected, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.recipes or self.models or self.rejected or self.problems)


def difference(
    old_catalog: Catalog | None, catalog: Catalog, old_models: Models | None, models: Models
) -> Refresh:
    """What a reader of the old values has to know about the new ones."""
    refused = old_catalog.rejected if old_catalog else ()
    known = old_models.problems if old_models else ()
    return Refresh(
        recipes=changes(old_catalog, catalog),
        models=_changed_models(old_models.entries if old_models else {}, models.entries),
        rejected=tuple(rejected for rejected in catalog.rejected if rejected not in refused),
        problems=tuple(problem for problem in models.problems if problem not in known),
    )


def report(refresh: Refresh, catalog: Catalog, *, first: bool) -> None:
    """Log the difference: one line each, but at the start only counts of what is in order."""
    if first:
        _log.info("%d recipes and %d models found", len(refresh.recipes.added), len(refresh.models.added))
    else:
        for recipe in refresh.recipes.added:
            _log.info("recipe '%s' added by %s", recipe, catalog.descriptors[recipe].source.path)
        for recipe in refresh.recipes.changed:
            _log.info("recipe '%s' changed; the next load takes it, running engines stay", recipe)
        for recipe in refresh.recipes.removed:
            _log.info("recipe '%s' removed; running engines stay", recipe)
        for what in ("added", "changed", "removed"):
            for model in getattr(refresh.models, what):
                _log.info("model '%s' %s", model, what)
    for rejected in refresh.rejected:
        if rejected.replaced:
            _log.info("%s replaces the one that comes with lemonpod, %s", rejected.recipe, rejected.path)
            continue
        kept = "; its last good version stays in use" if rejected.kept else ""
        problems = "; ".join(str(problem) for problem in rejected.problems)
        _log.warning("refused %s: %s%s", rejected.path, problems, kept)
    for problem in refresh.problems:
        _log.warning("%s", problem)


def _changed_models(old: Mapping[str, ModelEntry], new: Mapping[str, ModelEntry]) -> Changes:
    return Changes(
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(id_ for id_ in new.keys() & old.keys() if new[id_] != old[id_])),
        removed=tuple(sorted(old.keys() - new.keys())),
    )
