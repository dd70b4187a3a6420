"""Commands that talk to a running server: load, unload, run, status, logs."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from typing import Annotated, Any

import typer

from lemonpod.cli.options import LOOPBACK, PORT, ApiKey, AsJson, ServerHost, ServerPort
from lemonpod.cli.output import print_json, print_table, spinner
from lemonpod.cli.values import parse_options

_Model = Annotated[str, typer.Argument(help="A registered model, as `lemonpod list` shows it.")]


def load(
    model: _Model,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="A load option as NAME=VALUE; may be given again.", show_default=False),
    ] = None,
    save_options: Annotated[bool, typer.Option(help="Keep these options for later loads.")] = False,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Start a model's engine and wait until it is ready."""
    from lemonpod.cli.client import Client

    body: dict[str, Any] = parse_options(option or [])
    body |= {"model_name": model} | ({"save_options": True} if save_options else {})
    started = time.monotonic()
    with spinner(f"Loading {model}"):
        answer = Client(host, port, api_key).post("/api/v1/load", body)
    typer.echo(f"{answer['model_name']} is ready after {time.monotonic() - started:.1f} s")


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
            "/api/v1/unload", {} if model is None else {"model_name": model}
        )
    typer.echo(answer["message"])


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
    """Ask a model one thing and stream its answer. Ctrl-C ends the engine's work."""
    from lemonpod.cli.client import Client

    if prompt == "-":
        prompt = sys.stdin.read()
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "stream": True,
    }
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    with closing(Client(host, port, api_key).lines("POST", "/api/v1/chat/completions", body=body)) as lines:
        for line in lines:
            if not line.startswith("data:") or line == "data: [DONE]":
                continue
            event = json.loads(line.removeprefix("data:"))
            if error := event.get("error"):
                typer.echo(f"\nerror: {error['message']}", err=True)
                raise typer.Exit(1)
            for choice in event.get("choices", []):
                typer.echo(choice.get("delta", {}).get("content") or "", nl=False)
                sys.stdout.flush()
    typer.echo()


def status(
    as_json: AsJson = False,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Show what the server runs."""
    from lemonpod.cli.client import Client

    health = Client(host, port, api_key).get("/api/v1/health")
    if as_json:
        print_json(health)
        return
    typer.echo(f"lemonpod {health['version']} on {host}:{port}\n")
    now = time.time()
    print_table(
        ["MODEL", "RECIPE", "STATUS", "PID", "LAST USED", "WHY"],
        [
            (
                item["model_name"],
                item["recipe"],
                item["status"],
                item["pid"],
                f"{now - item['last_use'] / 1000:.0f} s ago" if item["last_use"] else None,
                item.get("reason"),
            )
            for item in [*health["all_models_loaded"], *health["failed_models"]]
        ],
        empty="No model is loaded; the first request for one loads it.",
    )


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
    with closing(Client(host, port, api_key).lines("GET", "/internal/logs", query=query)) as lines:
        for line in lines:
            typer.echo(json.loads(line)["line"])
