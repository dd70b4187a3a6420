"""`lemonpod backends install-external` and `uninstall-external`: the executables of variants."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lemonpod.cli import local
from lemonpod.cli.options import CacheDir, ConfigDir
from lemonpod.cli.output import printable
from lemonpod.errors import RecipeNotFoundError

if TYPE_CHECKING:
    from lemonpod.discovery.catalog import Descriptor
    from lemonpod.inventory.inventory import Inventory

_Recipe = Annotated[str, typer.Argument(help="The recipe, as `lemonpod backends` lists it.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def install_external(
    recipe: _Recipe,
    accelerator: Annotated[
        str | None,
        typer.Option(help="Which block's executable, where several are published.", show_default=False),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            help="The GPU architecture it is for, as gfx1151; this host's, if not said.", show_default=False
        ),
    ] = None,
    yes: _Yes = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """Download and verify a variant's executable.

    The recipe is a `variant_of` one. Shows first where the executable comes from. Needs no server.
    A download that breaks off goes on where it was when the command is run again.
    """
    from lemonpod.host.user import this_user
    from lemonpod.install.choice import choose
    from lemonpod.install.disclosure import install_lines
    from lemonpod.install.installing import install
    from lemonpod.launch.installed import install_folder

    inventory = local.inventory(cache_dir, config_dir)
    cache = local.folders(cache_dir, config_dir).cache
    descriptor = _descriptor(inventory, recipe)
    facts = inventory.facts
    choice = choose(
        descriptor.manifest,
        facts,
        device=inventory.device_of(descriptor.manifest),
        accelerator=accelerator.lower() if accelerator else None,
        arch=arch,
    )
    _show(install_lines(descriptor, choice, cache, this_user().name))
    if choice.artifact is None:
        command = choice.selection.block.command
        where = install_folder(cache, recipe) if descriptor.manifest.variant_of else command
        typer.echo(f"no pinned source; binary is user-provided at {where}")
        return
    _consent("install", yes)
    with _progress() as report:
        path = install(choice, facts.os, cache, report=report)
    typer.echo(f"installed to {path}")


def uninstall_external(
    recipe: _Recipe, yes: _Yes = False, cache_dir: CacheDir = None, config_dir: ConfigDir = None
) -> None:
    """Remove a manifest and what was installed.

    A recipe of the system is left to its packages.
    """
    from lemonpod.install.disclosure import removal_lines
    from lemonpod.install.uninstalling import check_removable, uninstall

    cache = local.folders(cache_dir, config_dir).cache
    descriptor = _descriptor(local.inventory(cache_dir, config_dir), recipe)
    check_removable(descriptor)
    _show(removal_lines(descriptor, cache))
    _consent("uninstall", yes)
    folder = uninstall(descriptor, cache)
    typer.echo(f"removed {descriptor.source.path}")
    if folder is not None:
        typer.echo(f"removed {folder}")


def _descriptor(inventory: Inventory, recipe: str) -> Descriptor:
    descriptor = inventory.catalog.descriptors.get(recipe)
    if descriptor is None:
        refused = next((one for one in inventory.catalog.rejected if one.recipe == recipe), None)
        raise RecipeNotFoundError(
            f"No external backend manifest found for recipe '{printable(recipe)}'.",
            hint=f"{refused.path} was rejected: {'; '.join(map(str, refused.problems))}"
            if refused
            else "lemonpod backends --all lists recipes and refused files",
        )
    return descriptor


def _show(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(printable(line))


def _consent(what: str, yes: bool) -> None:
    """Go on if a person says so. Nobody is there to be asked behind a pipe."""
    if yes:
        return
    if not sys.stdin.isatty():
        typer.echo(f"Refusing to {what} without --yes on a non-interactive terminal.\nAborted.", err=True)
        raise typer.Exit(1)
    if not typer.confirm("Proceed?", default=False, prompt_suffix=" "):
        typer.echo("Aborted.", err=True)
        raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator[Callable[[int, int | None], None]]:
    """A bar on a terminal, else nothing; what came before an interruption is named."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    here = 0
    columns = (
        TextColumn("downloading"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)

        def report(done: int, total: int | None) -> None:
            nonlocal here
            here = done
            progress.update(task, completed=done, total=total)

        try:
            yield report
        except KeyboardInterrupt:
            typer.echo(
                f"interrupted, nothing was installed; {here} bytes of the download are kept, "
                "and the same command goes on with them",
                err=True,
            )
            raise
