"""What a client writes about a model that is to be registered or fetched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import ConfigError, InvalidModelError, MalformedRequestError
from lemonpod.gateway.control_body import flag, required_model
from lemonpod.models.checkpoint import split_checkpoint
from lemonpod.models.entry import MAIN
from lemonpod.models.names import USER_PREFIX
from lemonpod.models.parse import MMPROJ

# Members that stand for a label.
_LABELS: Final = {
    "vision": "vision",
    "reasoning": "reasoning",
    "embedding": "embeddings",
    "reranking": "reranking",
}
_DEFINES: Final = frozenset({"checkpoint", "checkpoints", "recipe"})
_OTHERS: Final = frozenset(
    {
        "do_not_upgrade",
        "labels",
        "local_import",
        "mmproj",
        "model",
        "model_name",
        "recipe_options",
        "registry_source",
        "source",
        "stream",
        "subscribe",
        *_LABELS,
    }
)
# What exported files say besides; it follows from the model, or is of no use to a launch.
_PASSED_OVER: Final = frozenset({"id", "image_defaults", "size", "suggested"})
_SOURCES: Final = (None, "", "huggingface", "hf", "local_path")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A model to register."""

    name: str
    recipe: str
    checkpoints: Mapping[str, str]
    labels: tuple[str, ...]
    recipe_options: Mapping[str, JsonValue]

    def as_arguments(self) -> dict[str, Any]:
        """As `Inventory.draft` takes it."""
        return {
            "recipe": self.recipe,
            "checkpoints": self.checkpoints,
            "labels": self.labels,
            "recipe_options": self.recipe_options,
        }


def definition_in(body: Mapping[str, Any]) -> Definition | None:
    """The model that the body describes; None where it only names one. Raises MalformedRequestError."""
    if unknown := sorted(body.keys() - _DEFINES - _OTHERS - _PASSED_OVER):
        raise MalformedRequestError(
            f"unknown parameter '{unknown[0]}'", hint=f"known are {', '.join(sorted(_DEFINES | _OTHERS))}"
        )
    name = required_model(body)
    if flag(body, "local_import"):
        raise MalformedRequestError(
            "'local_import' is not supported", hint="name the file's path as checkpoint"
        )
    for member in ("source", "registry_source"):
        if body.get(member) not in _SOURCES:
            raise MalformedRequestError(f"'{member}' {body[member]!r} is not supported; 'huggingface' is")
    if not _DEFINES & body.keys():
        return None
    if not name.startswith(USER_PREFIX):
        raise MalformedRequestError(
            f"a model that is registered must be called '{USER_PREFIX}…'", hint=f"as '{USER_PREFIX}{name}'"
        )
    recipe = body.get("recipe")
    if not isinstance(recipe, str) or not recipe:
        raise MalformedRequestError("'recipe' parameter is required to register a model")
    options = body.get("recipe_options") or {}
    if not isinstance(options, dict):
        raise MalformedRequestError("'recipe_options' must be an object")
    return Definition(
        name=name,
        recipe=recipe,
        checkpoints=_checkpoints(body),
        labels=_labels(body),
        recipe_options=options,
    )


def _checkpoints(body: Mapping[str, Any]) -> dict[str, str]:
    single, several = body.get("checkpoint"), body.get("checkpoints") or {}
    if not isinstance(several, dict) or not all(isinstance(text, str) for text in several.values()):
        raise MalformedRequestError("'checkpoints' must be an object of strings")
    checkpoints = {role: text for role, text in several.items() if text}
    if single:
        if not isinstance(single, str):
            raise MalformedRequestError("'checkpoint' must be a string")
        if checkpoints.setdefault(MAIN, single) != single:
            raise MalformedRequestError(
                "'checkpoint' differs from 'checkpoints.main'", hint="give one of them"
            )
    if projector := body.get("mmproj"):
        if not isinstance(projector, str):
            raise MalformedRequestError("'mmproj' must be a string")
        checkpoints[MMPROJ] = _in_main(projector, checkpoints.get(MAIN, ""))
    return checkpoints


def _in_main(file: str, main: str) -> str:
    """A projector that is named by its file is in the repository of the model."""
    if ":" in file or file.startswith("/"):
        return file
    try:
        return f"{split_checkpoint(main)[0]}:{file}"
    except ConfigError as error:
        raise InvalidModelError(
            f"'mmproj' '{file}' is to be in the repository of 'checkpoint', which names none",
            hint="give its path, or 'org/repo:file'",
        ) from error


def _labels(body: Mapping[str, Any]) -> tuple[str, ...]:
    labels = body.get("labels") or []
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise MalformedRequestError("'labels' must be a list of strings")
    more = [label for member, label in _LABELS.items() if flag(body, member)]
    return tuple(dict.fromkeys([*labels, *more]))
