"""Which file of a repository a variant means. Pure: names in, a name out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

from lemonpod.errors import CheckpointNotFoundError
from lemonpod.models.parse import MMPROJ

ANY: Final = "*"
GGUF: Final = ".gguf"

_SHARD: Final = re.compile(r"(.*)-([0-9]{5})-of-([0-9]{5})\.gguf", re.IGNORECASE | re.DOTALL)
_MAX_LISTED: Final = 12


def pick(files: Sequence[str], variant: str, role: str) -> str | None:
    """The one of `files` (relative paths, sorted) that `variant` means for `role`, "" for all of them.

    In order: the exact path or file name, a name that ends with the variant, a folder, the variant as a
    part of a name. None if nothing fits. Two that fit equally well are an error, for the wrong weights
    would be a silent one. Of a model in shards it is the first.
    """
    models = _first_shards(name for name in files if _is_gguf(name) and is_mmproj(name) == (role == MMPROJ))
    if variant in {"", ANY}:
        if models:
            return models[0]
        return "" if files and role != MMPROJ else None
    if variant in files:
        return _first_shard(variant, files)
    wanted = variant.casefold()
    for named in (
        [name for name in files if PurePosixPath(name).name == variant],
        [name for name in files if wanted in {name.casefold(), PurePosixPath(name).name.casefold()}],
    ):
        if named:
            return _first_shard(_only(named, variant), files)
    if _is_gguf(variant):
        return None  # a file was named, and it is not there: nothing else will do
    quant = re.escape(variant)
    ending = re.compile(rf"(?:.*[^a-z0-9])?{quant}", re.IGNORECASE)
    if named := [name for name in models if ending.fullmatch(stem(name))]:
        return _only(named, variant)
    if folder := _folder(files, wanted):
        inside = [name for name in models if name.startswith(f"{folder}/")]
        return _only(inside, variant) if inside else folder
    part = re.compile(rf"(?<![a-z0-9]){quant}(?![a-z0-9_])", re.IGNORECASE)
    if named := [name for name in models if part.search(stem(name))]:
        return _only(named, variant)
    return None


def shards(name: str) -> tuple[str, ...]:
    """The names of all shards of the model that `name` is a part of: `name` alone if it has none."""
    if not (match := _SHARD.fullmatch(name)):
        return (name,)
    total = int(match[3])
    extension = name[-len(GGUF) :]
    return tuple(f"{match[1]}-{number:05d}-of-{match[3]}{extension}" for number in range(1, total + 1))


def is_mmproj(name: str) -> bool:
    """Whether a file is a projector by its name."""
    return MMPROJ in PurePosixPath(name).name.casefold()


def stem(name: str) -> str:
    """The file's name without its shard number and extension."""
    base = PurePosixPath(name).name
    match = _SHARD.fullmatch(base)
    return match[1] if match else base[: -len(GGUF)]


def models_in(files: Iterable[str]) -> list[str]:
    """The GGUF models among `files`, a model in shards by its first; projectors are none."""
    return _first_shards(name for name in files if _is_gguf(name) and not is_mmproj(name))


def listed(names: Sequence[str]) -> str:
    """Some names for a message."""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more


def _is_gguf(name: str) -> bool:
    return name.casefold().endswith(GGUF)


def _first_shards(names: Iterable[str]) -> list[str]:
    firsts: dict[str, str] = {}
    for name in names:
        match = _SHARD.fullmatch(name)
        firsts.setdefault(f"{match[1]}-of-{match[3]}" if match else name, name)
    return list(firsts.values())


def _first_shard(name: str, files: Sequence[str]) -> str:
    """The shard that engines open, whichever of them was named."""
    folder, slash, base = name.rpartition("/")
    first = f"{folder}{slash}{shards(base)[0]}"
    return first if first in files else name


def _folder(files: Sequence[str], wanted: str) -> str | None:
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    fitting = [f for f in folders if wanted in {f.casefold(), PurePosixPath(f).name.casefold()}]
    return min(fitting, key=lambda folder: (folder.count("/"), folder), default=None)


def _only(names: Sequence[str], variant: str) -> str:
    if len(names) > 1:
        raise CheckpointNotFoundError(
            f"'{variant}' fits more than one file: {listed(names)}", hint="name the one you mean in full"
        )
    return names[0]
