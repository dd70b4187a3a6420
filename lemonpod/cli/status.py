"""`lemonpod status`: what the server runs, once or again and again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from lemonpod.cli.options import LOOPBACK, PORT, ApiKey, AsJson, ServerHost, ServerPort
from lemonpod.cli.output import make_table, print_json, print_table

if TYPE_CHECKING:
    from lemonpod.cli.client import Client

_COLUMNS: Final = ("MODEL", "RECIPE", "STATUS", "RUN BY", "PID", "CPU", "MEMORY", "LAST USED", "NOTE")
_EMPTY: Final = "No model is loaded; the first request for one loads it."


class _Look(NamedTuple):
    """What the server said at one time."""

    title: str
    document: Mapping[str, Any]
    rows: list[tuple[object, ...]]


def status(
    as_json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks of --watch.")] = 2.0,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Show what the server runs, and what it uses."""
    from lemonpod.cli.client import Client

    client = Client(host, port, api_key)

    def look() -> _Look:
        return _look(client, f"{host}:{port}")

    if watch:
        _watch(look, every, as_json=as_json)
    elif as_json:
        print_json(look().document)
    else:
        _print(look())


def _watch(look: Callable[[], _Look], every: float, *, as_json: bool) -> None:
    """One screen that changes, where somebody looks at one; else one look behind the other."""
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    try:
        if as_json:
            while True:
                sys.stdout.write(f"{json.dumps(look().document, default=str)}\n")
                sys.stdout.flush()
                time.sleep(every)
        if not console.is_terminal:
            while True:
                _print(look())
                sys.stdout.write("\n")
                sys.stdout.flush()
                time.sleep(every)
        with Live(_drawn(look()), console=console, auto_refresh=False, transient=False) as live:
            while True:
                time.sleep(every)
                live.update(_drawn(look()), refresh=True)
    except KeyboardInterrupt:
        return  # it has no other end


def _look(client: Client, where: str) -> _Look:
    health = client.get("/api/v1/health", holding=["version", "all_models_loaded"])
    engines = client.get("/internal/engines", holding=["engines"])["engines"]
    known = {engine["model_name"]: engine for engine in engines}
    failed = health.get("failed_models", [])
    rows = [
        _row(item, known.get(item["model_name"], {}), failed=item in failed)
        for item in [*health["all_models_loaded"], *failed]
    ]
    return _Look(f"lemonpod {health['version']} on {where}", {**health, "engines": engines}, rows)


def _print(look: _Look) -> None:
    typer.echo(f"{look.title}\n")
    print_table(_COLUMNS, look.rows, empty=_EMPTY)


def _drawn(look: _Look) -> Any:
    from rich.console import Group

    body = make_table(_COLUMNS, look.rows) if look.rows else _EMPTY
    return Group(f"{look.title}, at {time.strftime('%X')}\n", body)


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
    if waiting := engine.get("queued_requests"):
        return f"{waiting} requests wait for it"
    if engine.get("pinned"):
        return "pinned"
    return f"by its command line: {engine['by_cli']}" if engine.get("by_cli") else None
