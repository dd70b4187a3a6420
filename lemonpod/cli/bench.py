"""`lemonpod bench`: how fast a model answers, and what it costs that the server stands in between.

The same requests go through the server and straight to the engine, in pairs that take turns in who is first,
so that whatever else the machine does hits both sides alike. Each side is asked over a new connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lemonpod.cli.options import LOOPBACK, PORT, ApiKey, AsJson, ServerHost, ServerPort
from lemonpod.errors import UnsupportedOperationError, UpstreamError

if TYPE_CHECKING:
    from lemonpod.cli.client import Client
    from lemonpod.cli.timing import Comparison, Spread

_PROMPT: Final = "Tell me about lemons: where they grow, what is made of them, and how they are kept."
_CHAT: Final = "/chat/completions"


def bench(
    model: Annotated[str, typer.Argument(help="A registered chat model, as `lemonpod list` shows it.")],
    requests: Annotated[int, typer.Option(min=1, help="How many requests each way.")] = 10,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 64,
    prompt: Annotated[str, typer.Option(help="What is asked; a number goes before it.")] = _PROMPT,
    as_json: AsJson = False,
    host: ServerHost = LOOPBACK,
    port: ServerPort = PORT,
    api_key: ApiKey = None,
) -> None:
    """Time answers through the server and straight from the engine.

    What the server adds is best seen in answers of one token, where the engine has least to do.
    """
    from lemonpod.cli.client import Client
    from lemonpod.cli.output import print_json, print_table, steps
    from lemonpod.cli.timing import Way, bodies, measure

    client = Client(host, port, api_key)
    item = _loaded(client, model)
    name, recipe, engine = item["model_name"], item["recipe"], item["backend_url"]
    gateway = Way(
        url=f"http://{f'[{host}]' if ':' in host else host}:{port}/api/v1{_CHAT}",
        headers=client.authorization(),
        hint="`lemonpod status` says what runs",
    )
    # Without the key: it is the server's, and none of the engine's business.
    direct = Way(
        url=engine + _CHAT,
        hint="the engine is asked where /health says it is: run this on the server's machine",
    )
    with steps(f"Asking {name}") as tell:
        measured = measure(gateway, direct, bodies(name, prompt, max_tokens), requests, tell)
    if as_json:
        told = {one.name.replace(" ", "_"): _as_object(one) for one in measured}
        print_json({"model": name, "recipe": recipe, "requests": requests, **told})
        return
    typer.echo(f"{name} by {recipe}, {requests} answers each way: medians, with the least and the most\n")
    rows = [
        (
            one.name,
            *(_cell(way, one.unit) for way in (one.gateway, one.direct)),
            _cell(one.added, one.unit, "+"),
        )
        for one in measured
    ]
    print_table(["", "THROUGH LEMONPOD", "STRAIGHT", "DIFFERENCE IN A PAIR"], rows, empty="")


def _loaded(client: Client, model: str) -> Mapping[str, Any]:
    """What /health says of the model, once it is loaded; one that is already is left as it is."""
    from urllib.parse import quote

    from lemonpod.cli.loading import load_and_watch

    name = client.get(f"/api/v1/models/{quote(model)}", holding=["id"])["id"]
    if (item := _find(client, name)) is None or not item["loaded"]:
        load_and_watch(client, {"model_name": name}, name)
        item = _find(client, name)
    if item is None or not item["backend_url"]:
        raise UpstreamError(f"{name} is loaded no more", hint="`lemonpod status` says why")
    if item["type"] != "llm":
        raise UnsupportedOperationError(f"{name} is no chat model: only answers of chat models are timed")
    return item


def _find(client: Client, name: str) -> Mapping[str, Any] | None:
    items = client.get("/api/v1/health", holding=["all_models_loaded"])["all_models_loaded"]
    return next((item for item in items if item["model_name"] == name), None)


def _as_object(measured: Comparison) -> dict[str, Any]:
    told = asdict(measured)
    del told["name"]
    return told


def _cell(spread: Spread | None, unit: str, sign: str = "") -> str:
    if spread is None:
        return ""
    least, most = (format(value, f"{sign}.2f") for value in (spread.least, spread.most))
    return f"{format(spread.median, f'{sign}.2f')} {unit} ({least} to {most})"
