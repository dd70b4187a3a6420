"""`lemonpod manifest`: check a manifest, see what it would start, print the schema."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from lemonpod.cli import local
from lemonpod.cli.options import AsJson, CacheDir, ConfigDir
from lemonpod.cli.output import print_json, print_table, problems_as_json
from lemonpod.cli.values import parse_options
from lemonpod.errors import ConfigError

app = typer.Typer(help="Check manifests and see what they would start.", no_args_is_help=True)


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="Manifest files, or folders of them.")],
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """Report everything wrong with manifests, also what would only fail at load. Exits 1 on any finding."""
    inventory = local.inventory(cache_dir, config_dir)
    reports = inventory.validate(list(_manifest_files(files)))
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "path": str(report.path),
                "valid": not report.problems,
                "findings": problems_as_json(report.problems),
            }
            for report in reports
        ]
        print_json(rows)
    else:
        for report in reports:
            for problem in report.problems:
                typer.echo(f"{report.path}: {problem}")
            if not report.problems:
                typer.echo(f"{report.path}: ok")
    if any(report.problems for report in reports):
        raise typer.Exit(1)


def _manifest_files(given: Iterable[Path]) -> Iterator[Path]:
    """The files themselves, and of a folder what discovery would look at."""
    from lemonpod.discovery.catalog import manifest_names

    for path in given:
        if not os.path.isdir(path):  # nor one that cannot be reached, of which its report tells
            yield path
            continue
        try:
            names = manifest_names(path)
        except OSError as error:
            raise ConfigError(f"{path}: cannot read directory: {error.strerror}") from error
        if not names:
            raise typer.BadParameter(f"no manifest in the folder {path}", param_hint="FILES")
        yield from (path / name for name in names)


@app.command()
def plan(
    recipe: Annotated[str, typer.Argument(help="The recipe to plan for.")],
    model: Annotated[str, typer.Option("--model", help="The registered model to plan with.")],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="A load option as NAME=VALUE; may be given again.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to plan with.")] = 8001,
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """Print what a load would start, and where each value came from, without starting anything."""
    from lemonpod.launch.plan import describe, shell_line

    made = local.inventory(cache_dir, config_dir).plan_now(
        model, parse_options(option or []), port, recipe=recipe
    )
    if as_json:
        print_json(describe(made))
        return
    for line in (*made.selection, *(f"note: {note}" for note in made.notes)):
        typer.echo(line)
    typer.echo(f"\n{shell_line(made)}\n")
    print_table(
        ["TOKEN", "VALUE", "FROM"],
        [(token, resolved.value, resolved.origin) for token, resolved in made.values.items()],
        empty="No token is used.",
    )


@app.command()
def schema() -> None:
    """Print the JSON Schema of manifests."""
    from lemonpod.contract.parse import schema_text

    typer.echo(schema_text(), nl=False)
