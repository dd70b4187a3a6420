"""`lemonpod register` and `lemonpod list`: the models of this machine, no server needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemonpod.cli import local
from lemonpod.cli.options import AsJson, CacheDir, ConfigDir
from lemonpod.cli.output import print_json, print_table, problems_as_json
from lemonpod.cli.values import parse_options
from lemonpod.errors import ConfigError, InvalidModelError, LaunchError, RecipeNotFoundError

if TYPE_CHECKING:
    from lemonpod.contract.manifest import Manifest
    from lemonpod.contract.vocabulary import JsonValue
    from lemonpod.inventory.inventory import Inventory


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
        bool,
        typer.Option(
            "--force", help="Also if the recipe or the file is not there (yet), or they do not fit."
        ),
    ] = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """Register a model in user_models.json.

    A running server sees it within two seconds.
    """
    from lemonpod.contract.vocabulary import ModelManagement
    from lemonpod.launch.bases.table import BUILTIN_MANIFESTS
    from lemonpod.models import write

    if checkpoint is not None and file is not None:
        raise typer.BadParameter("give either --checkpoint or --file, not both")
    if file is not None and not force:
        _require(file)
    options = parse_options(option or [])
    inventory = local.inventory(cache_dir, config_dir)
    found = inventory.catalog.descriptors.items()
    manifests = {**BUILTIN_MANIFESTS, **{id_: descriptor.manifest for id_, descriptor in found}}
    manifest = manifests.get(recipe)
    if manifest is None and not force:
        raise RecipeNotFoundError(
            f"no manifest for recipe '{recipe}' is in use; there are: {', '.join(sorted(manifests))}",
            hint="`lemonpod backends --all` shows refused files; --force registers the model anyway",
        )
    if manifest is not None and not force:
        _refuse_unfit(manifest, label or [], options)
        if checkpoint is None and file is None:
            _refuse_without_weights(manifest)
    main = checkpoint if file is None else str(file.absolute())
    written = write.register(
        local.folders(cache_dir, config_dir).config,
        name,
        recipe=recipe,
        checkpoints={} if main is None else {"main": main},
        labels=label or [],
        recipe_options=options,
        free_checkpoints=manifest is not None and manifest.model_management is ModelManagement.SELF_MANAGED,
    )
    typer.echo(f"{'replaced' if written.replaced else 'registered'} {written.id} in {written.path}")


def _require(file: Path) -> None:
    try:
        file.stat()
    except FileNotFoundError:
        raise ConfigError(f"there is no {file}", hint="--force registers it anyway") from None
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read: {error.strerror}", hint="--force registers it anyway"
        ) from error


def _refuse_without_weights(manifest: Manifest) -> None:
    from lemonpod.contract.templates import asks_for_weights

    if asks_for_weights(manifest):
        raise LaunchError(
            f"recipe '{manifest.recipe}' asks for the model's file",
            hint="give --file or --checkpoint; --force registers the model anyway",
        )


def _refuse_unfit(manifest: Manifest, labels: list[str], options: Mapping[str, JsonValue]) -> None:
    """What every load would refuse or ignore is better said now."""
    from lemonpod.contract.vocabulary import modes_of
    from lemonpod.launch.bases.words import known_options
    from lemonpod.models.labels import labelled_mode

    accepted = known_options(manifest)
    if unknown := sorted(options.keys() - accepted):
        raise LaunchError(
            f"recipe '{manifest.recipe}' has no option '{unknown[0]}'",
            hint=f"it takes: {', '.join(sorted(accepted))}; --force registers the model anyway",
        )
    try:
        mode = labelled_mode(labels)
    except ConfigError as error:
        raise InvalidModelError(error.message, hint=error.hint) from error
    if mode is not None and mode not in modes_of(manifest.capabilities):
        raise LaunchError(
            f"the labels say {mode}, but recipe '{manifest.recipe}' declares "
            f"{', '.join(manifest.capabilities)}",
            hint="take other labels or another recipe; --force registers the model anyway",
        )


def list_models(
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
    config_dir: ConfigDir = None,
) -> None:
    """List the registered models, and what they are missing."""
    inventory = local.inventory(cache_dir, config_dir)
    programs: dict[str, str | None] = {}
    rows: list[dict[str, Any]] = []
    for servable in inventory.servables():
        availability = inventory.look_for_files(servable)
        recipe = servable.entry.recipe
        if recipe not in programs:
            programs[recipe] = _missing_program(servable.manifest, inventory)
        problems = (servable.recipe_problem, programs[recipe], *availability.missing)
        rows.append(
            {
                "id": servable.entry.id,
                "recipe": recipe,
                "mode": servable.mode,
                "checkpoints": {
                    name: str(file.path or file.ref.text) for name, file in availability.files.items()
                },
                "downloaded": not availability.missing,
                "problems": [problem for problem in problems if problem],
            }
        )
    refused = inventory.models.problems
    if as_json:
        print_json({"models": rows, "refused": problems_as_json(refused)})
        return
    print_table(
        ["MODEL", "RECIPE", "MODE", "CHECKPOINT", "PROBLEM"],
        [
            (
                row["id"],
                row["recipe"],
                row["mode"],
                "\n".join(row["checkpoints"].values()),
                "\n".join(row["problems"]),
            )
            for row in rows
        ],
        empty="No model is registered. `lemonpod register --help` tells how.",
    )
    for problem in refused:
        typer.echo(f"refused: {problem}", err=True)


def _missing_program(manifest: Manifest | None, inventory: Inventory) -> str | None:
    """Why a variant or a built-in backend has no program here; other recipes name theirs at the start."""
    if manifest is None or not manifest.variant_of:
        return None
    try:
        inventory.program_of(manifest)
    except LaunchError as error:
        return error.message
    return None
