"""Commands that make a running server fetch, forget, take over and hand on models."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from lemonpod.cli.options import LOOPBACK, PORT, ApiKey, ServerHost, ServerPort
from lemonpod.cli.output import print_json, printable, spinner
from lemonpod.errors import ConfigError, InvalidModelError

if TYPE_CHECKING:
    from lemonpod.cli.client import Client

_CHECKPOINT: Final = "--checkpoint"
_EXPORTED: Final = ("recipe", "checkpoints", "labels", "recipe_options", "size")


class PairsCommand(TyperCommand):
    """Takes `--checkpoint TYPE CHECKPOINT`, which typer has no words for, as `TYPE=CHECKPOINT`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        joined: list[str] = []
        rest = iter(args)
        for arg in rest:
            joined.append(arg)
            if arg == _CHECKPOINT:
                role = next(rest, None)
                joined += [] if role is None else [role if "=" in role else f"{role}={next(rest, '')}"]
        return super().parse_args(ctx, joined)


def pull(
    model: Annotated[
        str,
        typer.Argument(help="A registered model, a new name, or org/repo[:VARIANT] of the hub."),
    ],
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            _CHECKPOINT,
            metavar="TYPE CHECKPOINT",
            help="As main org/repo:file.gguf, mmproj org/repo:mmproj.gguf; may be given again.",
            show_default=False,
        ),
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="The recipe of a new model.", show_default=False)] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Of a new model; may be given again.", show_default=False)
    ] = None,
    upgrade: Annotated[bool, typer.Option(help="Look for a newer revision of what is here.")] = True,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Register a model, if it is new, and fetch what is missing. Ctrl-C stops; the next pull goes on."""
    from lemonpod.cli.client import Client

    client = Client(host, port, api_key)
    body: dict[str, Any] = {"do_not_upgrade": not upgrade}
    if checkpoint:
        checkpoints = dict(text.split("=", 1) for text in checkpoint)
        body |= {"checkpoints": checkpoints, "model_name": _user(model)}
    elif "/" in model and not _is_registered(client, model):
        body |= _from_hub(client, model)
    elif label and recipe is None:
        raise typer.BadParameter("labels are of a new model; say its --recipe too", param_hint="--label")
    else:
        body["model_name"] = model if recipe is None else _user(model)
    if recipe is not None:
        body["recipe"] = recipe
    if label:
        body["labels"] = [*body.get("labels", []), *label]
    _pull(client, body)


def delete(
    model: Annotated[str, typer.Argument(help="A registered model.")],
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Unload and forget a model, and remove its downloaded files.

    Files that another model uses stay.
    """
    from lemonpod.cli.client import Client

    with spinner("Deleting"):
        answer = Client(host, port, api_key).post(
            "/api/v1/delete", {"model_name": model}, holding=["message"]
        )
    typer.echo(answer["message"])


def import_model(
    file: Annotated[Path, typer.Argument(help="What `lemonpod export` wrote.", dir_okay=False)],
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Register the model that a file describes, and fetch it."""
    from lemonpod.cli.client import Client
    from lemonpod.models.json_file import parse_object, read_bytes

    try:
        if (data := read_bytes(file)) is None:
            raise ConfigError("there is no such file")
        document = parse_object(data)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error.message}", hint=error.hint) from error
    name = document.get("model_name") or document.get("id")
    if not isinstance(name, str):
        raise InvalidModelError(f"{file}: 'model_name' is missing")
    _pull(Client(host, port, api_key), {**document, "model_name": _user(name)})


def export(
    model: Annotated[str, typer.Argument(help="A registered model.")],
    output: Annotated[
        Path | None, typer.Option(help="The file; standard output, if left out.", show_default=False)
    ] = None,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Write what another server needs to know to have the same model."""
    from lemonpod.cli.client import Client

    item = _model(Client(host, port, api_key), model)
    document = {"model_name": item["id"], **{name: item[name] for name in _EXPORTED if item.get(name)}}
    if output is None:
        print_json(document)
        return
    try:
        output.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{output}: cannot be written: {error.strerror}") from error
    typer.echo(f"wrote {output}")


def _pull(client: Client, body: Mapping[str, Any]) -> None:
    from lemonpod.cli.loading import pull_and_watch

    answer = pull_and_watch(client, body, str(body["model_name"]))
    typer.echo(printable(str(answer.get("message", "done"))))


def _user(name: str) -> str:
    return name if name.startswith("user.") else f"user.{name}"


def _model(client: Client, name: str) -> dict[str, Any]:
    from urllib.parse import quote

    return client.get(f"/api/v1/models/{quote(name, safe='/')}", holding=["id", "recipe"])


def _is_registered(client: Client, name: str) -> bool:
    from lemonpod.cli.client import ServerError

    try:
        _model(client, name)
    except ServerError as error:
        if error.status == 404:
            return False
        raise
    return True


def _from_hub(client: Client, text: str) -> dict[str, Any]:
    """A model out of what a repository offers, described as its GGUF files suggest."""
    from urllib.parse import urlencode

    repo, _, variant = text.partition(":")
    offer = client.get(f"/api/v1/pull/variants?{urlencode({'checkpoint': repo})}", holding=["variants"])
    chosen = variant or _choose(repo, offer["variants"])
    checkpoints = {"main": f"{repo}:{chosen}"}
    if projectors := offer.get("mmproj_files"):
        checkpoints["mmproj"] = f"{repo}:{projectors[0]}"
    return {
        "model_name": f"user.{offer['suggested_name']}",
        "recipe": offer["recipe"],
        "checkpoints": checkpoints,
        "labels": offer["suggested_labels"],
    }


def _choose(repo: str, variants: Sequence[Mapping[str, Any]]) -> str:
    if not variants:
        raise InvalidModelError(
            f"'{repo}' has no GGUF files", hint="name a model, --recipe and --checkpoint main " + repo
        )
    names = [str(variant["name"]) for variant in variants]
    if len(names) == 1:
        return names[0]
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidModelError(
            f"'{repo}' has several variants: {', '.join(names)}", hint=f"say which: {repo}:{names[0]}"
        )
    for variant in variants:
        typer.echo(f"  {printable(variant['name']):<14} {variant['size_bytes'] / 1e9:6.1f} GB", err=True)
    return str(typer.prompt("Which one", default=names[0], err=True))
