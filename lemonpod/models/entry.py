"""A registered model as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from lemonpod.contract.vocabulary import JsonValue

MAIN: Final = "main"
"""The name of the checkpoint that stands for the model; all others belong to it."""


class Origin(StrEnum):
    """Where a checkpoint's text points."""

    HUB = "hub"
    """`org/repo[:variant]` in the Hugging Face cache."""
    MODELSCOPE = "modelscope"
    """`org/repo[:variant]` from ModelScope, kept in a folder of its own in the same cache."""
    LOCAL_PATH = "local_path"
    """An absolute path, used as it is."""
    LOCAL_UPLOAD = "local_upload"
    """A path relative to the Hugging Face cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRef:
    """One file or folder of a model, as it was registered."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """Where a checkpoint is on this machine: `path`, or the `problem` that kept us from finding it.

    Symlinks in the path stay: a snapshot's file name carries the shard number, its blob's name does not.
    """

    ref: CheckpointRef
    path: Path | None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One model. `id` is canonical (`user.NAME`); `saved_options` come from recipe_options.json."""

    id: str
    recipe: str
    checkpoints: Mapping[str, CheckpointRef]
    labels: tuple[str, ...]
    recipe_options: Mapping[str, JsonValue]
    saved_options: Mapping[str, JsonValue]
    size_gb: float | None = None
    suggested: bool = False
    source: str | None = None
    hf_load: bool = False
    """llama.cpp is to fetch the model itself."""
