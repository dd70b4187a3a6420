"""Models that nobody registered: the GGUF files of a folder, left where they lie, named after it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.models.entry import MAIN, CheckpointRef, ModelEntry, Origin
from lemonpod.models.names import EXTRA_PREFIX
from lemonpod.models.parse import MMPROJ
from lemonpod.models.variants import is_mmproj, models_in, shards, stem

RECIPE: Final = "llamacpp"
SOURCE: Final = "extra_models_dir"

_RESERVED: Final = ("chat", "embeddings", "reranking")
"""Folders at the top whose name is the mode of the models in them."""
_HUB_FOLDER: Final = ("models--", "modelscope--models--")
_MAX_FILES: Final = 10_000
_NOTHING: Final[Mapping[str, JsonValue]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Folder:
    path: PurePosixPath
    """Relative to the root."""
    files: Mapping[str, int]
    """GGUF files by name, with their sizes."""


def find_extra(root: Path) -> dict[str, ModelEntry]:
    """The models below `root` by id. Reads the disk; what cannot be read is passed over."""
    folders = sorted(_folders(root), key=_order)
    entries: dict[str, ModelEntry] = {}
    taken: Counter[str] = Counter()
    for folder in folders:
        models = models_in(sorted(folder.files))
        names = _names(folder.path, models)
        for model, name in zip(models, names, strict=True):
            entry = _entry(root, folder, model, _free(name, folder.path, taken), alone=len(models) == 1)
            entries[entry.id] = entry
    return entries


def _folders(root: Path) -> Iterator[_Folder]:
    seen = 0
    for parent, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith(".") and _is_current(parent, name))
        sizes = {}
        for name in names:
            if name.casefold().endswith(".gguf") and (size := _size(os.path.join(parent, name))):
                sizes[name] = size
        seen += len(names)
        if sizes:
            yield _Folder(PurePosixPath(os.path.relpath(parent, root)), sizes)
        if seen > _MAX_FILES:
            return


def _is_current(parent: str, name: str) -> bool:
    """Of a hub's cache only the revision in use: what the others hold has been replaced."""
    repo = Path(parent).parent
    if os.path.basename(parent) != "snapshots" or not repo.name.startswith(_HUB_FOLDER):
        return not (name in {"blobs", "refs"} and os.path.basename(parent).startswith(_HUB_FOLDER))
    try:
        return (repo / "refs" / "main").read_text(encoding="utf-8", errors="replace").strip() == name
    except OSError:
        return True


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _order(folder: _Folder) -> tuple[int, str]:
    """Files at the root get their names first, then those in reserved folders, then the rest."""
    parts = folder.path.parts
    return (0 if not parts else 1 if parts[0] in _RESERVED and len(parts) == 1 else 2, str(folder.path))


def _names(path: PurePosixPath, models: list[str]) -> list[str]:
    """One model of a folder is called as the folder, several by their files."""
    is_loose = not path.parts or (len(path.parts) == 1 and path.parts[0] in _RESERVED)
    if is_loose or len(models) > 1:
        return [stem(model) for model in models]
    return [_folder_name(path)] * len(models)


def _folder_name(path: PurePosixPath) -> str:
    """The folder's, or in a hub's cache the repository's with the folder below the snapshot."""
    parts = path.parts
    for index, part in enumerate(parts):
        if part.startswith(_HUB_FOLDER) and parts[index + 1 : index + 2] == ("snapshots",):
            return "-".join((part.rpartition("--")[2], *parts[index + 3 :]))
    return parts[-1]


def _free(name: str, path: PurePosixPath, taken: Counter[str]) -> str:
    """The name, or one made of it that no other model has."""
    if taken[name] and path.parts:
        name = f"{_folder_name(path)}-{name}"
    taken[name] += 1
    return name if taken[name] == 1 else f"{name}-{taken[name]}"


def _entry(root: Path, folder: _Folder, model: str, name: str, *, alone: bool) -> ModelEntry:
    parts = folder.path.parts
    parent = root / folder.path
    files = {MAIN: model}
    projector = min(filter(is_mmproj, folder.files), default=None)
    if projector and (alone or not _is_shared(folder.path)):
        files[MMPROJ] = projector
    mode = parts[0] if parts and parts[0] in _RESERVED else "chat"
    size = sum(folder.files.get(file, 0) for file in (*shards(model), files.get(MMPROJ, "")))
    return ModelEntry(
        id=EXTRA_PREFIX + name,
        recipe=RECIPE,
        checkpoints=MappingProxyType(
            {
                role: CheckpointRef(text=str(parent / file), origin=Origin.LOCAL_PATH)
                for role, file in files.items()
            }
        ),
        labels=("custom", mode, *(["vision"] if MMPROJ in files else [])),
        recipe_options=_NOTHING,
        saved_options=_NOTHING,
        size_gb=round(size / 1e9, 3),
        suggested=True,
        source=SOURCE,
    )


def _is_shared(path: PurePosixPath) -> bool:
    """Whether the models of a folder have nothing to do with each other."""
    return not path.parts or (len(path.parts) == 1 and path.parts[0] in _RESERVED)
