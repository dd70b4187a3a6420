"""`lemonpod backends`: which recipes there are, and which files were refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemonpod.cli import local
from lemonpod.cli.options import AsJson, CacheDir, ConfigDir
from lemonpod.cli.output import print_json, print_table, problems_as_json

if TYPE_CHECKING:
    from lemonpod.discovery.catalog import Descriptor, Rejected


def backends(
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also recipes for other systems, and the files that were refused."),
    ] = False,
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """List the recipes that manifests describe on this machine."""
    inventory = local.inventory(cache_dir, config_dir)
    here = inventory.facts.os
    found = [
        descriptor
        for _, descriptor in sorted(inventory.catalog.descriptors.items())
        if everything or here in descriptor.manifest.platforms
    ]
    rejected = inventory.catalog.rejected
    if as_json:
        document: dict[str, Any] = {"recipes": [_recipe(descriptor) for descriptor in found]}
        document["rejected"] = [_rejected(item) for item in rejected]
        print_json(document)
        return
    print_table(
        ["RECIPE", "NAME", "CAPABILITIES", "PLATFORMS", "FILE"],
        [
            (
                row["recipe"],
                row["display_name"],
                ", ".join(row["capabilities"]),
                ", ".join(row["platforms"]),
                row["path"],
            )
            for row in map(_recipe, found)
        ],
        empty="No manifest was found. Put one into ~/.config/lemonade/backends/.",
    )
    if rejected and not everything:
        typer.echo(f"\n{len(rejected)} refused; `lemonpod backends --all` says why.")
    elif rejected:
        typer.echo("\nRefused:")
        for item in rejected:
            typer.echo(f"  {item.path}{' (the last good version stays in use)' if item.kept else ''}")
            for problem in item.problems:
                typer.echo(f"    {problem}")


def _recipe(descriptor: Descriptor) -> dict[str, Any]:
    manifest = descriptor.manifest
    return {
        "recipe": manifest.recipe,
        "display_name": manifest.display_name,
        "capabilities": [str(capability) for capability in manifest.capabilities],
        "platforms": [
            f"{system}.{accelerator}"
            for system, blocks in manifest.platforms.items()
            for accelerator in blocks
        ],
        "scope": str(descriptor.source.scope),
        "path": str(descriptor.source.path),
        "sha256": descriptor.source.sha256,
    }


def _rejected(item: Rejected) -> dict[str, Any]:
    return {
        "path": str(item.path),
        "recipe": item.recipe,
        "kept": item.kept,
        "reasons": problems_as_json(item.problems),
    }
