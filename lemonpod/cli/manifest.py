"""`lemonpod manifest`: check a manifest, see what it would start, print the schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lemonpod.cli.options import AsJson, CacheDir, ConfigDir

app = typer.Typer(help="Check manifests and see what they would start.", no_args_is_help=True)


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="Manifest files, or folders of them.")],
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> int:
    """Report everything wrong with manifests, also what would only fail at load. Exits 1 on any finding."""
    from lemonpod import bootstrap
    from lemonpod.cli.output import print_json

    checked = bootstrap.validate_manifests(files, cache_dir, config_dir)
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "path": str(path),
                "valid": not problems,
                "findings": [
                    {"field": problem.location, "reason": problem.message, "hint": problem.hint}
                    for problem in problems
                ],
            }
            for path, problems in checked
        ]
        print_json(rows)
    else:
        for path, problems in checked:
            for problem in problems:
                typer.echo(f"{path}: {problem}")
            if not problems:
                typer.echo(f"{path}: ok")
    return 1 if any(problems for _, problems in checked) else 0


@app.command()
def plan(
    recipe: Annotated[str, typer.Argument(help="The recipe to plan for.")],
    model: Annotated[str, typer.Option("--model", help="The registered model to plan with.")],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="A load option as NAME=VALUE; may be given again.", show_default=False),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to plan with, else the first one.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """Print what a load would start, and where each value came from, without starting anything."""
    from lemonpod import bootstrap
    from lemonpod.cli.output import print_json, print_table
    from lemonpod.cli.values import parse_options
    from lemonpod.launch.plan import describe, shell_line

    made = bootstrap.plan_recipe(recipe, model, parse_options(option or []), port, cache_dir, config_dir)
    if as_json:
        print_json(describe(made))
        return
    for line in made.selection:
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
