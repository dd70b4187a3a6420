"""A registered model together with what would serve it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.templates import checkpoints_of
from lemonpod.contract.vocabulary import Mode, ModelManagement
from lemonpod.discovery.catalog import Catalog
from lemonpod.errors import InvalidModelError, LaunchError
from lemonpod.launch.bases.table import BUILTIN_MANIFESTS
from lemonpod.launch.mode import model_mode
from lemonpod.models.checkpoint import locate_all, repo_folder
from lemonpod.models.entry import CheckpointFile, ModelEntry, Origin
from lemonpod.models.leftovers import InUse
from lemonpod.models.reach import needed_for, own_paths

# Made by the engine on its first run, so no part of what must be there before.
_NPU_CACHE: Final = "npu_cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Servable:
    """A model, its recipe's manifest and the mode it is deployed in, or why it cannot be served."""

    entry: ModelEntry
    manifest: Manifest | None
    mode: Mode | None
    recipe_problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Where a model's files are, and one line for each that must be there and is not."""

    files: Mapping[str, CheckpointFile]
    missing: tuple[str, ...]


def make_servable(entry: ModelEntry, catalog: Catalog, builtin: Collection[str]) -> Servable:
    """Match a model with its recipe."""
    descriptor = catalog.descriptors.get(entry.recipe)
    manifest = BUILTIN_MANIFESTS.get(entry.recipe) if descriptor is None else descriptor.manifest
    if manifest is None:
        problem = _no_manifest(entry.recipe, catalog, builtin)
        return Servable(entry=entry, manifest=None, mode=None, recipe_problem=problem)
    try:
        mode = model_mode(manifest, entry)
    except LaunchError as error:
        return Servable(entry=entry, manifest=manifest, mode=None, recipe_problem=str(error))
    return Servable(entry=entry, manifest=manifest, mode=mode, recipe_problem=None)


def find_files(servable: Servable, hub: Path) -> Availability:
    """Look for the model's files; reads the disk. What the manifest has no use for is not missed."""
    files = locate_all(servable.entry.checkpoints, hub)
    needed = _needed(servable)
    missing = (f"{name}: {file.problem}" for name, file in files.items() if name in needed and not file.path)
    return Availability(files=files, missing=tuple(missing))


def in_use(servables: Collection[Servable], running: Collection[str], hub: Path) -> InUse:
    """What of the cache models are loaded from; reads the disk.

    A repository's commits are left out if a model of it lacks something, or is its engine's own affair, for
    what those would take is not known, and while one is `running`, be it from what was current then.
    """
    used: dict[str, set[str]] = {}
    unclear: set[str] = set()
    paths: set[Path] = set(own_paths(servable.entry for servable in servables))
    for servable in servables:
        folders = {folder for ref in servable.entry.checkpoints.values() if (folder := repo_folder(ref))}
        files = find_files(servable, hub).files.values()
        found = {file.path for file in files if file.path is not None}
        is_running = servable.entry.id in running
        if is_running or _is_self_managed(servable) or any(file.path is None for file in files):
            unclear |= folders
        for folder in folders:
            commits = used.setdefault(folder, set())
            snapshots = hub / folder / "snapshots"
            commits |= {path.relative_to(snapshots).parts[0] for path in found if snapshots in path.parents}
        paths |= found
    commits_of = {folder: commits for folder, commits in used.items() if folder not in unclear}
    return InUse(commits=commits_of, places=needed_for(paths))


def fetched_checkpoints(servable: Servable) -> dict[str, str]:
    """The checkpoints that the hub has and a server may fetch, by name; none for a self-managed engine.

    Raises InvalidModelError for those of another registry.
    """
    entry = servable.entry
    if _is_self_managed(servable):
        return {}
    if any(ref.origin is Origin.MODELSCOPE for ref in entry.checkpoints.values()):
        raise InvalidModelError(f"'{entry.id}' is of ModelScope; only Hugging Face's models can be fetched")
    refs = {name: ref for name, ref in entry.checkpoints.items() if name != _NPU_CACHE}
    return {name: ref.text for name, ref in refs.items() if ref.origin is Origin.HUB}


def _is_self_managed(servable: Servable) -> bool:
    manifest = servable.manifest
    self_managed = manifest is not None and manifest.model_management is ModelManagement.SELF_MANAGED
    return servable.entry.hf_load or self_managed


def _needed(servable: Servable) -> Collection[str]:
    """The checkpoints that must be there; a self-managed engine has its own."""
    manifest, entry = servable.manifest, servable.entry
    if manifest is None or manifest.variant_of is not None:
        return () if entry.hf_load else entry.checkpoints.keys() - {_NPU_CACHE}
    if manifest.model_management is ModelManagement.SELF_MANAGED:
        return ()
    return checkpoints_of(manifest)


def _no_manifest(recipe: str, catalog: Catalog, builtin: Collection[str]) -> str:
    if recipe in builtin:
        ours = ", ".join(BUILTIN_MANIFESTS)
        return (
            f"recipe '{recipe}' is built into Lemonade; lemonpod runs {ours} and the recipes that manifests "
            "describe"
        )
    for rejected in catalog.rejected:
        if rejected.recipe == recipe:
            problem = "; ".join(str(problem) for problem in rejected.problems)
            return f"the manifest of recipe '{recipe}' was rejected: {rejected.path}: {problem}"
    return f"no external manifest registered for recipe '{recipe}'"
