"""What a model is deployed as: exactly one of its recipe's modes."""

from __future__ import annotations

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.vocabulary import Mode, modes_of
from lemonpod.errors import ConfigError, LaunchError
from lemonpod.models.entry import ModelEntry
from lemonpod.models.labels import labelled_mode


def model_mode(manifest: Manifest, entry: ModelEntry) -> Mode | None:
    """The mode that the model's labels name, else the one of the recipe's first capability that has any."""
    modes = modes_of(manifest.capabilities)
    try:
        labelled = labelled_mode(entry.labels)
    except ConfigError as error:
        raise LaunchError(f"model '{entry.id}': {error.message}", hint=error.hint) from error
    if labelled is None:
        return modes[0] if modes else None
    if labelled not in modes:
        raise LaunchError(
            f"model '{entry.id}' is labelled for {labelled}, but recipe '{manifest.recipe}' declares "
            f"{', '.join(manifest.capabilities)}",
            hint="correct the model's labels, or register it for another recipe",
        )
    return labelled
