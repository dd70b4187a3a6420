"""`lemonpod manifest`: check a manifest, see what it would start, print the schema."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from lemonpod.cli import local
from lemonpod.cli.files import manifest_files
from lemonpod.cli.options import AsJson, CacheDir, ConfigDir
from lemonpod.cli.output import print_json, print_table, problems_as_json
from lemonpod.cli.values import parse_options
from lemonpod.errors import ArgvError

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
    reports = inventory.validate(list(manifest_files(files, parameter="FILES")))
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


class ArgvFormat(StrEnum):
    SPEC = "spec"
    DOCKER = "docker"
    PODMAN = "podman"
    CLI = "cli"


@app.command(context_settings={"allow_interspersed_args": False})
def argv(
    words: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND", help="A run or create of podman or docker.")
    ],
    format_: Annotated[
        ArgvFormat,
        typer.Option("--format", help="The spec, the body for the API of one, or a line to paste."),
    ] = ArgvFormat.SPEC,
) -> None:
    """Print the container that a command line of podman or docker asks for, without running anything."""
    from lemonpod.drivers.docker_body import docker_create
    from lemonpod.drivers.podman_body import podman_create
    from lemonpod.inventory.caller import this_caller
    from lemonpod.launch.argv.run import container_spec
    from lemonpod.launch.argv.split import join, split
    from lemonpod.launch.container import as_json

    command = split(words)
    if command is None:
        raise ArgvError("no run or create of podman or docker", index=0)
    spec = container_spec(command, this_caller())
    match format_:
        case ArgvFormat.SPEC:
            print_json(as_json(spec))
            return
        case ArgvFormat.CLI:
            typer.echo(shlex.join(join(command)))
            return
    if format_.value != spec.runtime.value:
        reason = f"a command line of {spec.runtime}; its flags mean other things to {format_}"
        raise ArgvError(reason, index=len(command.wrapper))
    query, body = (docker_create if format_ is ArgvFormat.DOCKER else podman_create)(spec)
    print_json(body)
    if query:  # not part of the body, and stdout is the body alone
        typer.echo(f"query: {urlencode(query)}", err=True)


@app.command()
def schema() -> None:
    """Print the JSON Schema of manifests."""
    from lemonpod.contract.parse import schema_text

    typer.echo(schema_text(), nl=False)
