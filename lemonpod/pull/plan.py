"""Which files of which repositories a model needs. Pure: listings in, files out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from lemonpod.errors import CheckpointNotFoundError, HubNotFoundError, InvalidModelError
from lemonpod.models.checkpoint import split_checkpoint
from lemonpod.models.entry import MAIN
from lemonpod.models.variants import listed, models_in, pick, shards, stem
from lemonpod.pull.repo import Listing, RemoteFile


@dataclass(frozen=True, slots=True)
class Wanted:
    """One file to have, of one commit."""

    listing: Listing
    file: RemoteFile


def wanted_files(
    checkpoints: Mapping[str, str], look: Callable[[str], Listing], *, exact: bool = False
) -> tuple[Wanted, ...]:
    """The files of every checkpoint (`org/repo[:variant]` by name), each once; `look` asks for a listing.

    `exact` is for a model that is new: of a repository with GGUF files it must name the one it means.
    Raises HubNotFoundError where a repository has nothing that fits, InvalidModelError for an unclear wish.
    """
    wanted: dict[tuple[str, str], Wanted] = {}
    for role, text in checkpoints.items():
        repo, variant = split_checkpoint(text)
        listing = look(repo)
        if exact and role == MAIN and not variant and (models := models_in(listing.paths)):
            raise InvalidModelError(
                f"'{repo}' is a repository of GGUF files: name the one to fetch, as '{repo}:{models[0]}'",
                hint=f"it has: {listed(models)}",
            )
        found = _fitting(listing, variant, role)
        if not found and variant and role != MAIN and MAIN in checkpoints:
            listing = look(split_checkpoint(checkpoints[MAIN])[0])
            found = _fitting(listing, variant, role)
        if not found:
            names = models_in(listing.paths) or listing.paths
            raise HubNotFoundError(
                f"'{repo}' has no file for '{variant or role}'; it has: {listed(names) or 'nothing'}",
                hint="name one of these",
            )
        for file in found:
            wanted.setdefault((listing.repo, file.path), Wanted(listing, file))
    return tuple(wanted.values())


def _fitting(listing: Listing, variant: str, role: str) -> tuple[RemoteFile, ...]:
    """The files that a variant means: one, its shards, a folder of them, or the whole repository."""
    paths = listing.paths
    try:
        chosen = pick(paths, variant, role)
    except CheckpointNotFoundError as error:
        raise InvalidModelError(error.message, hint=error.hint) from error
    if chosen is None:
        return ()
    if chosen == "":
        return listing.files
    if chosen in paths:
        return tuple(map(listing.file, _all_shards(listing, chosen)))
    return tuple(file for file in listing.files if file.path.startswith(f"{chosen}/"))


def _all_shards(listing: Listing, chosen: str) -> Sequence[str]:
    folder, slash, name = chosen.rpartition("/")
    names = [f"{folder}{slash}{shard}" for shard in shards(name)]
    if missing := [name for name in names if name not in listing.paths]:
        raise HubNotFoundError(f"'{listing.repo}' lacks parts of the model: {listed(missing)}")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One model that a repository offers."""

    name: str
    files: tuple[RemoteFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def variants(listing: Listing) -> tuple[Variant, ...]:
    """The GGUF models of a repository, those that most people take first."""
    found = [
        Variant(name=_variant_name(path), files=tuple(map(listing.file, _all_shards(listing, path))))
        for path in models_in(listing.paths)
    ]
    return tuple(sorted(found, key=lambda variant: (_rank(variant.name), variant.name)))


def _variant_name(path: str) -> str:
    """A quantization as repositories spell it, or the file's name where it has none."""
    prefix, dash, last = stem(path).rpartition("-")
    if not dash or not any(char.isdigit() for char in last):
        return PurePosixPath(path).name
    return f"UD-{last}" if prefix.endswith("-UD") else last


_POPULAR = ("Q4_K_M", "UD-Q4_K_XL", "Q8_0", "Q4_0")


def _rank(name: str) -> int:
    return _POPULAR.index(name) if name in _POPULAR else len(_POPULAR)
