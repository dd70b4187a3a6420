"""Commands that talk to a running server: load, unload, run, status, logs."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemonpod.cli.options import LOOPBACK, PORT, ApiKey, ServerHost, ServerPort
from lemonpod.cli.output import printable, spinner
from lemonpod.cli.values import parse_options

if TYPE_CHECKING:
    pass

_Model = Annotated[str, typer.Argument(help="A registered model, as `lemonpod list` shows it.")]


def load(
    model: _Model,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="A load option as NAME=VALUE; may be given again.", show_default=False),
    ] = None,
    pinned: Annotated[
        bool | None,
        typer.Option(
            "--pinned/--no-pinned", help="Whether it stays, whatever else is loaded.", show_default=False
        ),
    ] = None,
    save_options: Annotated[bool, typer.Option(help="Keep these options for later loads.")] = False,
    merge_args: Annotated[
        bool | None,
        typer.Option(
            help="Whether the model's args are added to those of config.json, as is usual, or replace them.",
            show_default=False,
        ),
    ] = None,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Start a model's engine and wait until it is ready."""
    from lemonpod.cli.client import Client
    from lemonpod.cli.loading import load_and_watch

    body: dict[str, Any] = parse_options(option or [])
    body |= {"model_name": model} | ({"save_options": True} if save_options else {})
    body |= {} if merge_args is None else {"merge_args": merge_args}
    body |= {} if pinned is None else {"pinned": pinned}
    started = time.monotonic()
    answer = load_and_watch(Client(host, port, api_key), body, model)
    typer.echo(f"{answer.get('model_name', model)} is ready after {time.monotonic() - started:.1f} s")


def unload(
    model: Annotated[str | None, typer.Argument(help="The model; every one, if left out.")] = None,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Stop a model's engine, or all of them."""
    from lemonpod.cli.client import Client

    with spinner("Unloading"):
        answer = Client(host, port, api_key).post(
            "/api/v1/unload", {} if model is None else {"model_name": model}, holding=["message"]
        )
    typer.echo(answer["message"])


def pin(
    model: _Model,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Keep a loaded model loaded: it makes room for no other."""
    _pin(model, host, port, api_key, pinned=True)


def unpin(
    model: _Model,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Let a pinned model make room for others again."""
    _pin(model, host, port, api_key, pinned=False)


def _pin(model: str, host: str, port: int, api_key: str | None, *, pinned: bool) -> None:
    from lemonpod.cli.client import Client

    body = {"model_name": model, "pinned": pinned}
    answer = Client(host, port, api_key).post("/internal/pin", body, holding=["model_name"])
    typer.echo(f"{answer['model_name']} is {'pinned' if pinned else 'no longer pinned'}")


def run(
    model: _Model,
    prompt: Annotated[str, typer.Argument(help="What to ask; `-` reads it from standard input.")],
    max_tokens: Annotated[
        int | None, typer.Option(help="Longest answer, in tokens.", show_default=False)
    ] = None,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Ask a model one thing and stream its answer. Ctrl-C ends the engine's work.

    `lemonpod chat` is a talk.
    """
    from lemonpod.cli.answer import as_text, pieces_of
    from lemonpod.cli.client import Client

    if prompt == "-":
        prompt = "" if sys.stdin is None else sys.stdin.read()
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": as_text(prompt)}],
        "stream": True,
    }
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    client = Client(host, port, api_key)
    with closing(pieces_of(client, body)) as pieces:
        with spinner(f"Waiting for {model}"):
            first = next(pieces, "")
        try:
            for piece in chain([first], pieces):
                # A model may say anything, also what a terminal would obey.
                typer.echo(printable(piece) if sys.stdout.isatty() else piece, nl=False)
                sys.stdout.flush()
        finally:
            typer.echo()  # what comes next, an error too, begins on a line of its own


def logs(
    model: _Model,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", help="Only the newest lines.", show_default=False)
    ] = None,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Print what a model's engine wrote."""
    from lemonpod.cli.client import Client

    query = {"model": model} | ({"follow": "1"} if follow else {})
    if tail is not None:
        query["tail"] = str(tail)
    client = Client(host, port, api_key)
    written = False
    with closing(client.lines("GET", "/internal/logs", query=query)) as lines:
        for line in lines:
            written = True
            typer.echo(client.parse(line, holding=["line"])["line"])
    if not written and tail != 0:
        typer.echo("Its engine has written nothing; `lemonpod status` says how it is.", err=True)
