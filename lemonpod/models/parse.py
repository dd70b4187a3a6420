"""One entry of user_models.json, from JSON to a `ModelEntry`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import ConfigError, Problem
from lemonpod.models.entry import MAIN, CheckpointRef, ModelEntry, Origin
from lemonpod.models.labels import labelled_mode
from lemonpod.models.names import canonical_id

MMPROJ: Final = "mmproj"

_CHECKPOINT_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")
_FILE_NAME: Final = re.compile(r"[^/\\:]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:GB)?\s*", re.IGNORECASE)

_NOTHING: Final[Mapping[str, JsonValue]] = MappingProxyType({})
_CHECKPOINT_FIELDS: Final = frozenset({"checkpoint", "checkpoints", "mmproj", "source", "registry_source"})
_OTHER_FIELDS: Final = frozenset({"recipe", "labels", "recipe_options", "size", "suggested", "hf_load"})
# Lemonade's own, of no use to a launch.
_UNUSED_FIELDS: Final = frozenset({"components", "image_defaults", "routing", "system_prompt", "version"})


def parse_entry(
    key: str, value: JsonValue, saved_options: Mapping[str, JsonValue] = _NOTHING
) -> tuple[ModelEntry | None, tuple[Problem, ...]]:
    """The model that `key: value` registers and what is odd about it; no model where that is too much."""
    if not isinstance(value, dict):
        return None, (Problem(location=key, message="must be an object"),)
    fields = _Fields(key, value)
    entry = ModelEntry(
        id=fields.id(),
        recipe=fields.recipe(),
        checkpoints=MappingProxyType(fields.checkpoints()),
        labels=fields.labels(),
        recipe_options=MappingProxyType(fields.mapping("recipe_options") or {}),
        saved_options=saved_options,
        size_gb=fields.size(),
        suggested=value.get("suggested") is True,
        source=fields.text("source"),
        hf_load=value.get("hf_load") is True,
    )
    for name in sorted(value.keys() - _CHECKPOINT_FIELDS - _OTHER_FIELDS - _UNUSED_FIELDS):
        fields.note(name, "unknown field, ignored")
    return (None if fields.refused else entry), tuple(fields.problems)


def is_absolute(text: str) -> bool:
    """Whether a checkpoint's text is a path of its own, on this or on another operating system."""
    return _ABSOLUTE.match(text) is not None


def has_control(text: str) -> bool:
    """Whether a text holds what no path or command line should: control characters, half characters."""
    return _CONTROL.search(text) is not None


class _Fields:
    """The fields of one entry by type; what is wrong is collected, so that one look shows it all."""

    def __init__(self, key: str, document: Mapping[str, JsonValue]) -> None:
        self._key = key
        self._document = document
        self.problems: list[Problem] = []
        self.refused = False

    def note(self, field: str, message: str, hint: str | None = None) -> None:
        location = f"{self._key}.{field}" if field else self._key
        problem = Problem(location=location, message=message, hint=hint)
        if problem not in self.problems:
            self.problems.append(problem)

    def refuse(self, field: str, message: str, hint: str | None = None) -> None:
        self.note(field, message, hint)
        self.refused = True

    def text(self, field: str) -> str | None:
        value = self._document.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            self.refuse(field, "must be a string")
            return None
        return value

    def mapping(self, field: str) -> Mapping[str, JsonValue] | None:
        value = self._document.get(field)
        if value is not None and not isinstance(value, dict):
            self.refuse(field, "must be an object")
            return None
        return value

    def id(self) -> str:
        try:
            return canonical_id(self._key)
        except ConfigError as error:
            self.refuse("", error.message, error.hint)
            return self._key

    def recipe(self) -> str:
        recipe = self.text("recipe")
        if recipe is None and not self._document.get("recipe"):
            self.refuse("recipe", "is missing", "name the recipe that runs this model")
        return recipe or ""

    def labels(self) -> tuple[str, ...]:
        value = self._document.get("labels") or []
        if not isinstance(value, list) or not all(isinstance(label, str) for label in value):
            self.refuse("labels", "must be a list of strings")
            return ()
        labels = tuple(str(label) for label in value)
        try:
            labelled_mode(labels)
        except ConfigError as error:
            self.refuse("labels", error.message, error.hint)
        return labels

    def size(self) -> float | None:
        """GB; some write it as text. It is only shown, so a bad one does not cost the model."""
        match self._document.get("size"):
            case None:
                return None
            case bool():
                pass
            case int() | float() as number if number >= 0:
                return float(number)
            case str() as text if (match := _SIZE.fullmatch(text)) and math.isfinite(size := float(match[1])):
                return size
        self.note("size", "is not a number of GB, ignored")
        return None

    def checkpoints(self) -> dict[str, CheckpointRef]:
        texts = self._checkpoint_texts()
        for name, text in texts.items():
            if has_control(text):
                self.refuse(f"checkpoints.{name}", "holds a control character")
        if MAIN not in texts:
            if texts:
                self.refuse("checkpoints", "has no 'main'")
            return {}
        main = self._main_ref(texts.pop(MAIN))
        # The field `mmproj` means a file of the main repository, in a folder of it even.
        in_main = {MMPROJ} if ":" not in (self.text("mmproj") or ":") else set()
        return {MAIN: main} | {
            name: _beside(main, text, in_main=name in in_main) for name, text in texts.items()
        }

    def _checkpoint_texts(self) -> dict[str, str]:
        """Each checkpoint's name and text, from whichever of the three fields it stands in."""
        single, several, mmproj = self.text("checkpoint"), self.mapping("checkpoints"), self.text("mmproj")
        if single is not None and several is not None:
            self.refuse("checkpoints", "must not stand beside 'checkpoint'", "keep one of the two")
        texts = {} if single is None else {MAIN: single}
        for name, text in (several or {}).items():
            if not _CHECKPOINT_NAME.fullmatch(name):
                self.refuse("checkpoints", f"invalid checkpoint name {name!r}")
            elif not isinstance(text, str) or not text:
                self.refuse(f"checkpoints.{name}", "must be a non-empty string")
            else:
                texts[name] = text
        if mmproj is not None and texts.setdefault(MMPROJ, mmproj) != mmproj:
            self.refuse("mmproj", "differs from 'checkpoints.mmproj'", "keep one of the two")
        return texts

    def _main_ref(self, text: str) -> CheckpointRef:
        if is_absolute(text):
            return CheckpointRef(text=text, origin=Origin.LOCAL_PATH)
        source = self.text("source")
        if source == Origin.LOCAL_PATH:
            self.refuse("checkpoint", f"'{text}' must be an absolute path, for 'source' is 'local_path'")
        if source == Origin.LOCAL_UPLOAD:
            return CheckpointRef(text=text, origin=Origin.LOCAL_UPLOAD)
        modelscope = self.text("registry_source") == Origin.MODELSCOPE
        return CheckpointRef(text=text, origin=Origin.MODELSCOPE if modelscope else Origin.HUB)


def _beside(main: CheckpointRef, text: str, *, in_main: bool) -> CheckpointRef:
    """A further checkpoint; `in_main`, or with a mere file name, it is where the main one is."""
    if is_absolute(text):
        return CheckpointRef(text=text, origin=Origin.LOCAL_PATH)
    if not in_main and not _FILE_NAME.fullmatch(text):
        origin = Origin.HUB if main.origin is Origin.LOCAL_PATH else main.origin
        return CheckpointRef(text=text, origin=origin)
    match main.origin:
        case Origin.HUB | Origin.MODELSCOPE:
            folder = main.text.partition(":")[0] + ":"
        case Origin.LOCAL_PATH | Origin.LOCAL_UPLOAD:
            folder = main.text[: max(main.text.rfind("/"), main.text.rfind("\\")) + 1]
    return CheckpointRef(text=folder + text, origin=main.origin)
