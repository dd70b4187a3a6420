"""`lemonpod manifest`: check a manifest, see what it would start, print the schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemonpod.cli import local
from lemonpod.cli.containers import ContainerFormat, print_container
from lemonpod.cli.files import manifest_files
from lemonpod.cli.options import AsJson, CacheDir, ConfigDir
from lemonpod.cli.output import print_json, print_table, problems_as_json
from lemonpod.cli.values import parse_options
from lemonpod.errors import ArgvError, LaunchError

if TYPE_CHECKING:
    from lemonpod.launch.plan import LaunchPlan

app = typer.Typer(help="Check manifests and see what they would start.", no_args_is_help=True)


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="Manifest files, or folders of them.")],
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """Report everything wrong with manifests.

    Also what would only fail at load. Exits 1 on any finding.
    """
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
    format_: Annotated[
        ContainerFormat | None,
        typer.Option(
            "--format",
            help="Of a container alone: the spec, the body for the API of its runtime, or a line to paste.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """Print what a load would start, without starting anything.

    And where each value came from.
    """
    from lemonpod.launch.plan import ContainerLaunch, describe, shell_line

    made = local.inventory(cache_dir, config_dir).plan_now(
        model, parse_options(option or []), port, recipe=recipe
    )
    if format_ is ContainerFormat.CLI:
        typer.echo(shell_line(made))
        return
    if format_ is not None:
        if not isinstance(made.spec, ContainerLaunch):
            why = made.by_cli or "it starts no podman or docker"
            raise LaunchError(
                f"recipe '{made.recipe}' asks no API for a container: {why}",
                hint="`--format cli` prints its command line",
            )
        print_container(made.spec.container, made.spec.argv, format_)
        return
    if as_json:
        print_json(describe(made))
        return
    for line in (*made.selection, _how(made), *(f"note: {note}" for note in made.notes)):
        typer.echo(line)
    typer.echo(f"\n{shell_line(made)}\n")
    print_table(
        ["TOKEN", "VALUE", "FROM"],
        [(token, resolved.value, resolved.origin) for token, resolved in made.values.items()],
        empty="No token is used.",
    )


def _how(plan: LaunchPlan) -> str:
    """Who would start it."""
    from lemonpod.launch.plan import ContainerLaunch

    if isinstance(plan.spec, ContainerLaunch):
        return f"run: a container, over the API of {plan.spec.container.runtime}"
    return f"run: the command line itself: {plan.by_cli}" if plan.by_cli else "run: a process"


@app.command(context_settings={"allow_interspersed_args": False})
def argv(
    words: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND", help="A run or create of podman or docker.")
    ],
    format_: Annotated[
        ContainerFormat,
        typer.Option("--format", help="The spec, the body for the API of one, or a line to paste."),
    ] = ContainerFormat.SPEC,
) -> None:
    """Print what a podman or docker command line asks for.

    Nothing is run.
    """
    from lemonpod.inventory.caller import this_caller
    from lemonpod.launch.argv.run import container_spec
    from lemonpod.launch.argv.split import join, split

    command = split(words)
    if command is None:
        raise ArgvError("no run or create of podman or docker", index=0)
    print_container(container_spec(command, this_caller()), join(command), format_)


@app.command()
def schema() -> None:
    """Print the JSON Schema of manifests."""
    from lemonpod.contract.parse import schema_text

    typer.echo(schema_text(), nl=False)
