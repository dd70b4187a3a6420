"""What lemonpod writes on its containers, so that every later server knows whose they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.engine.api import Adoptable
from lemonpod.launch.plan import LaunchPlan

INSTANCE: Final = "lemonpod.instance"
"""The id of a state folder: servers with other folders leave the container alone."""
RUN: Final = "lemonpod.run"
"""The id of the server run that made it."""
ENGINE: Final = "lemonpod.engine"
"""The number of the engine in that run."""
RECIPE: Final = "lemonpod.recipe"
MODEL: Final = "lemonpod.model"
PLAN: Final = "lemonpod.plan"
"""The plan's digest."""
PORT: Final = "lemonpod.port"
OVERRIDES: Final = "lemonpod.overrides"
"""The options of the load request, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who makes a container."""

    instance: str
    run: str
    number: int

    @property
    def labels(self) -> dict[str, str]:
        """They name a single engine."""
        return {INSTANCE: self.instance, RUN: self.run, ENGINE: str(self.number)}


def labels_of(plan: LaunchPlan, owner: Owner) -> dict[str, str]:
    """All labels of a new container. Values are any text, unlike names."""
    return {
        **owner.labels,
        RECIPE: plan.recipe,
        MODEL: plan.model,
        PLAN: plan.digest,
        PORT: str(plan.endpoint.port),
        OVERRIDES: json.dumps(dict(plan.overrides), sort_keys=True),
    }


def started_as(labels: Mapping[str, str]) -> Adoptable | None:
    """What a container was started as; None where the labels are not those that `labels_of` makes."""
    try:
        overrides: JsonValue = json.loads(labels[OVERRIDES])
        return Adoptable(
            model=labels[MODEL],
            port=int(labels[PORT]),
            overrides=overrides if isinstance(overrides, dict) else {},
            digest=labels[PLAN],
        )
    except (KeyError, ValueError):
        return None
