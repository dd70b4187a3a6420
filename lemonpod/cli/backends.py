"""`lemonpod backends`: which recipes there are, and which files were refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemonpod.cli import external, local
from lemonpod.cli.options import AsJson, CacheDir, ConfigDir
from lemonpod.cli.output import print_json, print_table, problems_as_json
from lemonpod.errors import LaunchError

if TYPE_CHECKING:
    from lemonpod.contract.manifest import Manifest
    from lemonpod.discovery.catalog import Descriptor, Rejected
    from lemonpod.inventory.inventory import Inventory


app = typer.Typer(invoke_without_command=True)
app.command("install-external")(external.install_external)
app.command("uninstall-external")(external.uninstall_external)


@app.callback()
def backends(
    context: typer.Context,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also recipes for other systems, and the files that were refused."),
    ] = False,
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """List the recipes of this machine, or install one.

    Built-in ones are listed too where there is a program for them.
    """
    if context.invoked_subcommand is not None:
        if everything or as_json or cache_dir or config_dir:
            raise typer.BadParameter(f"options go behind {context.invoked_subcommand}")
        return
    inventory = local.inventory(cache_dir, config_dir)
    here = inventory.facts.os
    found = [
        descriptor
        for _, descriptor in sorted(inventory.catalog.descriptors.items())
        if everything or here in descriptor.manifest.platforms
    ]
    rejected = inventory.catalog.rejected
    rows = [row for row in _own(inventory) if everything or row["executable"]]
    rows += [_recipe(descriptor, inventory) for descriptor in found]
    if as_json:
        document: dict[str, Any] = {"recipes": rows}
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
                _place(row),
            )
            for row in rows
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


def _own(inventory: Inventory) -> Iterator[dict[str, Any]]:
    """The built-in backends that only need a program."""
    from lemonpod.launch.bases.table import BUILTIN_MANIFESTS

    here = inventory.facts.os
    for manifest in BUILTIN_MANIFESTS.values():
        manifest = replace(manifest, platforms={here: manifest.platforms.get(here, {})})
        yield {**_said(manifest), **_program(manifest, inventory), "scope": "builtin", "path": None}


def _recipe(descriptor: Descriptor, inventory: Inventory) -> dict[str, Any]:
    manifest, source = descriptor.manifest, descriptor.source
    where = {"scope": str(source.scope), "path": str(source.path), "sha256": source.sha256}
    return {**_said(manifest), **(_program(manifest, inventory) if manifest.variant_of else {}), **where}


def _said(manifest: Manifest) -> dict[str, Any]:
    return {
        "recipe": manifest.recipe,
        "display_name": manifest.display_name,
        "variant_of": manifest.variant_of,
        "capabilities": [str(capability) for capability in manifest.capabilities],
        "platforms": [
            f"{system}.{accelerator}"
            for system, blocks in manifest.platforms.items()
            for accelerator in blocks
        ],
    }


def _program(manifest: Manifest, inventory: Inventory) -> dict[str, Any]:
    """The program of a variant or a built-in backend, or why there is none."""
    try:
        _, found = inventory.program_of(manifest)
    except LaunchError as error:
        return {"executable": None, "executable_problem": str(error)}
    return {"executable": str(found.path), "executable_problem": None}


def _place(row: dict[str, Any]) -> str:
    """Where the recipe comes from, and a program that it lacks."""
    place = row["path"] or f"built in: {row['executable'] or 'no program'}"
    return f"{place} (no program)" if row["path"] and row.get("executable_problem") else place


def _rejected(item: Rejected) -> dict[str, Any]:
    return {
        "path": str(item.path),
        "recipe": item.recipe,
        "kept": item.kept,
        "reasons": problems_as_json(item.problems),
    }
