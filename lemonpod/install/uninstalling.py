"""Removing a recipe: its manifest, if it is the user's, and what was installed of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from lemonpod.discovery.catalog import Descriptor
from lemonpod.discovery.paths import Scope
from lemonpod.errors import InstallError
from lemonpod.install import place
from lemonpod.launch.installed import install_folder

_OF_THE_USER = frozenset({Scope.USER_CONFIG, Scope.USER_CACHE})


def check_removable(descriptor: Descriptor) -> None:
    """Raises InstallError for a manifest that is not the user's to remove."""
    path, scope = descriptor.source.path, descriptor.source.scope
    if scope is Scope.SYSTEM:
        raise InstallError(
            f"Refusing to remove '{path}': it is a system descriptor. Remove it with the package manager."
        )
    if scope not in _OF_THE_USER:
        raise InstallError(
            f"Refusing to remove '{path}': it comes with lemonpod.",
            hint="a manifest of the same recipe in your own folder takes its place",
        )


def uninstall(descriptor: Descriptor, cache_dir: Path) -> Path | None:
    """Remove the manifest, then the install folder; returns the folder if there was one.

    Raises InstallError, and then nothing was removed, where an engine runs from it.
    """
    check_removable(descriptor)
    folder = install_folder(cache_dir, descriptor.manifest.recipe)
    if not folder.exists():
        descriptor.source.path.unlink(missing_ok=True)
        return None
    with place.locked(folder):
        if (install := place.in_use(folder)) is not None:
            raise InstallError(
                f"an engine runs from {install.folder}", hint="end it with `lemonpod unload`, then try again"
            )
        descriptor.source.path.unlink(missing_ok=True)
        shutil.rmtree(folder)
    return folder
