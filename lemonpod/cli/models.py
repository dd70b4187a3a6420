"""`lemonpod register` and `lemonpod list`: the models of this machine, no server needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lemonpod.cli.options import AsJson, CacheDir, ConfigDir


def register(
    name: Annotated[str, typer.Argument(help="The model's name; clients ask for user.NAME.")],
    recipe: Annotated[str, typer.Option(help="The recipe that runs it.")],
    checkpoint: Annotated[
        str | None,
        typer.Option(help="org/repo:file.gguf in the Hugging Face cache.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A model file or folder on this machine.", show_default=False)
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="As embeddings or reranking; may be given again.", show_default=False),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", help="A recipe option as NAME=VALUE; may be given again.", show_default=False
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also if the recipe or the file is not there (yet).")
    ] = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """Register a model in user_models.json; a running server sees it within two seconds."""
    from lemonpod import bootstrap
    from lemonpod.cli.values import parse_options

    written = bootstrap.register_model(
        name,
        recipe=recipe,
        checkpoint=checkpoint,
        file=file,
        labels=label or [],
        options=parse_options(option or []),
        force=force,
        cache_dir=cache_dir,
        config_dir=config_dir,
    )
    typer.echo(f"registered {written.model} in {written.path}")


def list_models(
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """List the registered models and whether their files are here."""
    from lemonpod import bootstrap
    from lemonpod.cli.output import print_json, print_table

    rows, problems = bootstrap.list_models(cache_dir, config_dir)
    if as_json:
        print_json({"models": rows, "problems": [str(problem) for problem in problems]})
        return
    print_table(
        ["MODEL", "RECIPE", "MODE", "HERE", "CHECKPOINT", "PROBLEM"],
        [
            (
                row["id"],
                row["recipe"],
                row["mode"],
                "yes" if row["downloaded"] else "no",
                row["checkpoint"],
                row["problem"],
            )
            for row in rows
        ],
        empty="No model is registered. `lemonpod register --help` tells how.",
    )
    for problem in problems:
        typer.echo(f"refused: {problem}", err=True)
