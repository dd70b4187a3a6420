"""`lemonpod alias`: further names for models, on a running server."""

from __future__ import annotations

from typing import Annotated

import typer

from lemonpod.cli.options import LOOPBACK, PORT, ApiKey, AsJson, ServerHost, ServerPort
from lemonpod.cli.output import print_json, print_table

app = typer.Typer(help="Further names for models.", no_args_is_help=True, rich_markup_mode=None)

_Alias = Annotated[str, typer.Argument(help="The further name.")]


@app.command()
def add(
    alias: _Alias,
    target: Annotated[str, typer.Argument(help="The model that it stands for.")],
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Let a name stand for a model.

    A name that there is changes what it stands for.
    """
    from lemonpod.cli.client import Client

    Client(host, port, api_key).post(
        "/internal/aliases", {"alias": alias, "target": target}, holding=["alias"]
    )
    typer.echo(f"{alias} stands for {target}")


@app.command()
def remove(
    alias: _Alias, host: ServerHost = LOOPBACK, port: ServerPort = PORT, api_key: ApiKey = None
) -> None:
    """Forget an alias."""
    from urllib.parse import quote

    from lemonpod.cli.client import Client

    Client(host, port, api_key).delete(f"/internal/aliases/{quote(alias, safe='/')}", holding=["status"])
    typer.echo(f"{alias} is forgotten")


@app.command("list")
def list_aliases(
    as_json: AsJson = False, host: ServerHost = LOOPBACK, port: ServerPort = PORT, api_key: ApiKey = None
) -> None:
    """List the aliases and what they stand for."""
    from lemonpod.cli.client import Client

    aliases = Client(host, port, api_key).get("/internal/aliases", holding=["aliases"])["aliases"]
    if as_json:
        print_json({"aliases": aliases})
        return
    print_table(
        ["ALIAS", "MODEL", "RECIPE", "DOWNLOADED"],
        [
            (item["alias"], item["target"], item["recipe"], "yes" if item["downloaded"] else "no")
            for item in aliases
        ],
        empty="There are no aliases.",
    )
