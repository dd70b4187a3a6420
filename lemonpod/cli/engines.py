"""Commands that talk to a running server: load, unload, run, status, logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Mapping
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemonpod.cli.options import LOOPBACK, PORT, ApiKey, AsJson, ServerHost, ServerPort
from lemonpod.cli.output import print_json, print_table, printable, spinner
from lemonpod.cli.values import parse_options
from lemonpod.errors import UpstreamError

if TYPE_CHECKING:
    from lemonpod.cli.client import Client

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
    from lemonpod.cli.loading import load_and_watch

    body: dict[str, Any] = parse_options(option or [])
    body |= {"model_name": model} | ({"save_options": True} if save_options else {})
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
        prompt = "" if sys.stdin is None else sys.stdin.read()
    # Whatever bytes came in, only characters go out.
    prompt = prompt.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "stream": True,
    }
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    client = Client(host, port, api_key)
    with closing(_pieces(client, body)) as pieces:
        with spinner(f"Waiting for {model}"):
            first = next(pieces, "")
        try:
            for piece in chain([first], pieces):
                # A model may say anything, also what a terminal would obey.
                typer.echo(printable(piece) if sys.stdout.isatty() else piece, nl=False)
                sys.stdout.flush()
        finally:
            typer.echo()  # what comes next, an error too, begins on a line of its own


def _pieces(client: Client, body: Mapping[str, Any]) -> Generator[str, None, None]:
    """The answer's text as it comes; raises UpstreamError where it breaks off."""
    with closing(client.lines("POST", "/api/v1/chat/completions", body=body)) as lines:
        for line in lines:
            if line == "data: [DONE]":
                return
            if not line.startswith("data:"):
                continue
            event = client.parse(line.removeprefix("data:"))
            if error := event.get("error"):
                message = error["message"] if isinstance(error, dict) and "message" in error else error
                raise UpstreamError(f"the answer broke off: {message}")
            for choice in event.get("choices") or []:
                if text := (choice.get("delta") or {}).get("content"):
                    yield text
    raise UpstreamError("the answer broke off before its end", hint="`lemonpod status` says what runs")


def status(
    as_json: AsJson = False,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Show what the server runs, and what it uses."""
    from lemonpod.cli.client import Client

    client = Client(host, port, api_key)
    health = client.get("/api/v1/health", holding=["version", "all_models_loaded"])
    engines = client.get("/internal/engines", holding=["engines"])["engines"]
    if as_json:
        print_json({**health, "engines": engines})
        return
    typer.echo(f"lemonpod {health['version']} on {host}:{port}\n")
    known = {engine["model_name"]: engine for engine in engines}
    failed = health.get("failed_models", [])
    rows = [
        _row(item, known.get(item["model_name"], {}), failed=item in failed)
        for item in [*health["all_models_loaded"], *failed]
    ]
    print_table(
        ["MODEL", "RECIPE", "STATUS", "RUN BY", "PID", "CPU", "MEMORY", "LAST USED", "NOTE"],
        rows,
        empty="No model is loaded; the first request for one loads it.",
    )


def _row(item: Mapping[str, Any], engine: Mapping[str, Any], *, failed: bool) -> tuple[object, ...]:
    percent, memory, last = engine.get("cpu_percent"), engine.get("memory_bytes"), item.get("last_use")
    return (
        item["model_name"],
        item.get("recipe"),
        "failed" if failed else "unknown" if engine.get("trouble") else item.get("status"),
        " ".join(filter(None, (engine.get("driver"), engine.get("container")))),
        None if failed else item.get("pid"),
        None if percent is None else f"{percent:.0f} %",
        None if memory is None else f"{memory / (1 << 20):.0f} MiB",
        f"{time.time() - last / 1000:.0f} s ago" if last else None,
        _note(item, engine),
    )


def _note(item: Mapping[str, Any], engine: Mapping[str, Any]) -> str | None:
    """What matters most: why it failed, what cannot be told, what is being done, why it is run so."""
    if reason := item.get("reason"):
        # The cause alone: the engine's last lines follow it, and `lemonpod logs` has them all.
        return str(reason).partition("\n")[0]
    if trouble := engine.get("trouble"):
        return str(trouble)
    if progress := engine.get("progress"):
        percent = progress["percent"]
        return f"{progress['text']}{'' if percent is None else f' ({percent:.0f} %)'}"
    return f"by its command line: {engine['by_cli']}" if engine.get("by_cli") else None


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
    with closing(client.lines("GET", "/internal/logs", query=query)) as lines:
        for line in lines:
            typer.echo(client.parse(line, holding=["line"])["line"])
