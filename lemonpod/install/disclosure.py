"""What people are told before anything is installed or removed (RFC section 10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lemonpod.discovery.catalog import Descriptor
from lemonpod.install.choice import Choice
from lemonpod.launch.installed import install_folder

_WARNING = (
    "  WARNING: this backend runs as an external subprocess. No process",
    "           sandbox is enforced by this RFC; run only manifests you trust.",
)


def install_lines(descriptor: Descriptor, choice: Choice, cache_dir: Path, user: str) -> Iterator[str]:
    """Where the chosen executable comes from, where it goes, and as whom it will run."""
    manifest, block, artifact = descriptor.manifest, choice.selection.block, choice.artifact
    yield f"External backend: {manifest.display_name} ({manifest.recipe})"
    yield f"  manifest: {descriptor.source.path}"
    yield f"  variant_of: {manifest.variant_of or '(none)'}"
    yield f"  source: {artifact.source if artifact else '(user-provided binary)'}"
    if artifact:
        yield f"  sha256: {artifact.sha256 or '(not checked: it rolls forward)'}"
        yield f"  version_policy: {'pinned' if artifact.sha256 else 'roll_forward'}"
    yield f"  capabilities: {', '.join(manifest.capabilities)}"
    yield f"  block: {choice.place}"
    for line in choice.selection.lines:
        yield f"    {line}"
    if manifest.variant_of is not None:
        yield f"  goes to: {install_folder(cache_dir, manifest.recipe)}"
    yield f"  runs as: {block.binary or block.command}, with all rights of the user {user}"
    yield from _WARNING


def removal_lines(descriptor: Descriptor, cache_dir: Path) -> Iterator[str]:
    """What is removed, and where it came from."""
    manifest = descriptor.manifest
    yield f"External backend: {manifest.display_name} ({manifest.recipe})"
    yield f"  variant_of: {manifest.variant_of or '(none)'}"
    yield f"  source: {manifest.source or '(said by each block, or user-provided binary)'}"
    yield f"  capabilities: {', '.join(manifest.capabilities)}"
    yield f"  removes: {descriptor.source.path}"
    folder = install_folder(cache_dir, manifest.recipe)
    if folder.exists():
        yield f"  removes: {folder}, with everything in it"
    yield from _WARNING
