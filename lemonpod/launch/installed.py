"""Where a variant's executable comes from, and which installed one a launch takes (RFC section 7).

An install never replaces another. Each has a numbered folder of its own with a receipt, and a launch takes
the newest whose receipt is of the artifact that its block names: by digest where the artifact is pinned, by
address where it rolls forward. So what runs is what the manifest says, whichever block that is.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from lemonpod.contract.manifest import Block, Manifest
from lemonpod.contract.vocabulary import JsonValue, Os, VersionPolicy
from lemonpod.errors import ConfigError, NotInstalledError
from lemonpod.launch.select import Selection

FOLDER: Final = "external"
"""Of the cache folder: below it every recipe has one."""
FILES: Final = "files"
"""In an install's folder: what the artifact holds."""
RECEIPT: Final = "receipt.json"
"""Beside it: what the artifact was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What an executable is fetched from. Without a `sha256` it rolls forward: any content is right."""

    source: str
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What was installed. `sha256` is of the file that was fetched; `binaries`: where each executable is."""

    source: str
    sha256: str
    binaries: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """One install of a recipe in its folder; the higher the number, the newer."""

    number: int
    folder: Path
    receipt: Receipt

    def executable(self, binary: str) -> Path | None:
        """Where `binary` is, if it was found when the artifact was unpacked."""
        place = self.receipt.binaries.get(binary)
        return None if place is None else self.folder / FILES / place


@dataclass(frozen=True, slots=True, kw_only=True)
class Installs:
    """What is installed of a recipe."""

    installs: tuple[Install, ...] = ()
    problems: tuple[str, ...] = ()
    """Receipts that cannot be read."""

    def of(self, artifact: Artifact) -> Install | None:
        """The newest install of the artifact."""
        fitting = (install for install in self.installs if _fits(artifact, install.receipt))
        return max(fitting, key=lambda install: install.number, default=None)


NOTHING_INSTALLED: Final = Installs()


def install_folder(cache_dir: Path, recipe: str) -> Path:
    """Where executables of the recipe are, installed or put there by users."""
    return cache_dir / FOLDER / recipe


def artifact_of(manifest: Manifest, block: Block) -> Artifact | None:
    """What the block's executable is fetched from; None where users provide it."""
    source = block.source or manifest.source
    if manifest.variant_of is None or not source:
        return None
    policy = block.version_policy or manifest.version_policy or VersionPolicy.PINNED
    sha256 = block.sha256 or manifest.sha256
    return Artifact(source=source, sha256=None if policy is VersionPolicy.ROLL_FORWARD else sha256)


def artifacts_of(manifest: Manifest, block: Block) -> Mapping[str | None, Artifact]:
    """Those of the block for each key of its arch overrides, and for None, where no override fits."""
    merged: dict[str | None, Block] = {None: block}
    merged |= {key: block.merged_with(override) for key, override in block.arch.items()}
    found = {key: artifact_of(manifest, one) for key, one in merged.items()}
    return MappingProxyType({key: artifact for key, artifact in found.items() if artifact is not None})


def all_artifacts(manifest: Manifest, os: Os) -> Iterator[Artifact]:
    """Every artifact that some host of this operating system would fetch."""
    for block in manifest.platforms.get(os, {}).values():
        yield from artifacts_of(manifest, block).values()


def installed(manifest: Manifest, selection: Selection, artifact: Artifact, installs: Installs) -> Install:
    """The install that has the selected block's executable; raises NotInstalledError."""
    install = installs.of(artifact)
    if install is None or install.executable(selection.block.binary or "") is None:
        raise NotInstalledError(
            f"binary is not installed: {_why(selection, artifact, installs, install)}",
            hint=install_command(manifest.recipe, selection),
        )
    return install


def install_command(recipe: str, selection: Selection) -> str:
    """What installs the executable of the selected block."""
    arch = f" --arch {shlex.quote(selection.override)}" if selection.override else ""
    return f"lemonpod backends install-external {recipe} --accelerator {selection.accelerator}{arch}"


def receipt_as_json(receipt: Receipt) -> dict[str, JsonValue]:
    return {
        "format": 1,
        "source": receipt.source,
        "sha256": receipt.sha256,
        "binaries": dict(receipt.binaries),
    }


def parse_receipt(document: Mapping[str, JsonValue]) -> Receipt:
    """The receipt that a document is; raises ConfigError for anything that we did not write."""
    source, sha256, binaries = (document.get(name) for name in ("source", "sha256", "binaries"))
    if document.get("format") != 1 or not isinstance(source, str) or not isinstance(sha256, str):
        raise ConfigError("is no receipt of this version of lemonpod")
    if not isinstance(binaries, dict):
        raise ConfigError("tells of no executables")
    places = {name: place for name, place in binaries.items() if isinstance(place, str) and _inside(place)}
    if places.keys() != binaries.keys():
        raise ConfigError("names an executable outside of its folder")
    return Receipt(source=source, sha256=sha256, binaries=MappingProxyType(places))


def _fits(artifact: Artifact, receipt: Receipt) -> bool:
    if artifact.sha256 is None:
        return receipt.source == artifact.source
    return receipt.sha256 == artifact.sha256


def _why(selection: Selection, artifact: Artifact, installs: Installs, install: Install | None) -> str:
    if install is not None:
        return f"what {artifact.source} gave was installed without a '{selection.block.binary}'"
    place = selection.path + (f".arch.{selection.override}" if selection.override else "")
    text = f"{place} needs what {artifact.source} gives"
    if installs.problems:
        return f"{text} ({'; '.join(installs.problems)})"
    return f"{text}, and only another artifact is there" if installs.installs else text


def _inside(place: str) -> bool:
    path = PurePosixPath(place)
    return bool(place) and not path.is_absolute() and ".." not in path.parts
