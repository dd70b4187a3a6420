"""Which artifact a recipe is installed from. Pure; the block is chosen as every launch chooses it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lemonpod.contract.manifest import Manifest
from lemonpod.errors import InstallError
from lemonpod.host.facts import HostFacts
from lemonpod.launch.installed import Artifact, artifact_of, artifacts_of
from lemonpod.launch.select import Selection, is_glob, select_block


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What to install; `artifact` is None where users provide the executable."""

    manifest: Manifest
    selection: Selection
    artifact: Artifact | None

    @property
    def place(self) -> str:
        """The block of the manifest that says so."""
        override = self.selection.override
        return self.selection.path + (f".arch.{override}" if override else "")


def choose(
    manifest: Manifest,
    facts: HostFacts,
    *,
    device: str | None = None,
    accelerator: str | None = None,
    arch: str | None = None,
) -> Choice:
    """The artifact for this host; `accelerator` and `arch` say what it is for where several are possible.

    `device` is what a model is run on that names none, if options of the recipe say it.
    Raises InstallError that names the possible ones, or PlatformNotSupportedError.
    """
    blocks = manifest.platforms.get(facts.os, {})
    offers = {name: frozenset(artifacts_of(manifest, block).items()) for name, block in blocks.items()}
    fetching = {name: offer for name, offer in offers.items() if offer}
    if accelerator is not None and blocks and accelerator not in blocks:
        raise InstallError(
            f"no platform block for accelerator '{accelerator}'", hint=f"it has {_names(blocks)}"
        )
    if accelerator is None and len(set(fetching.values())) > 1:
        launched = select_block(manifest, facts, device).accelerator
        raise InstallError(
            f"manifest publishes per-platform artifacts; pick one with --accelerator ({_names(fetching)})",
            hint=f"a model that names no device would be run here as: {launched}",
        )
    selection = select_block(manifest, facts, accelerator or device, arch=arch)
    artifact = artifact_of(manifest, selection.block)
    if artifact is None and selection.accelerator in fetching:
        keys = [key for key, _ in fetching[selection.accelerator] if key is not None]
        patterns = ", ".join(sorted(keys, key=lambda key: (is_glob(key), key)))
        tried = f", none of which is for '{arch}'" if arch is not None else ""
        raise InstallError(f"manifest chooses its artifact by arch; pass --arch ({patterns}){tried}")
    return Choice(manifest=manifest, selection=selection, artifact=artifact)


def _names(keys: Iterable[str]) -> str:
    return ", ".join(sorted(keys))
