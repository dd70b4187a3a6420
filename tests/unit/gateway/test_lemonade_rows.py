"""Lemonade's HTTP interface, row by row: each names what is asked and what must be answered."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import pytest
from aiohttp import web

from lemonpod.contract.vocabulary import CAPABILITIES
from lemonpod.gateway.app import add_routes
from lemonpod.gateway.settings import GatewaySettings
from tests.factories import make_document
from tests.hub_site import Repo, hub_site
from tests.unit.gateway.rows.answers import ANSWERS
from tests.unit.gateway.rows.control import CONTROL
from tests.unit.gateway.rows.engine import engine
from tests.unit.gateway.rows.errors import ERRORS
from tests.unit.gateway.rows.keys import KEYS
from tests.unit.gateway.rows.left_out import LEFT
from tests.unit.gateway.rows.roots import ROOTS
from tests.unit.gateway.rows.routes import ROUTES
from tests.unit.gateway.rows.row import POST_ONLY, Row
from tests.unit.gateway.rows.streams import STREAMS
from tests.unit.gateway.test_gates import MODEL
from tests.unit.gateway.wire import Reply
from tests.unit.gateway.world import Starter, World, install_variant

ROWS = (*ROUTES, *ROOTS, *CONTROL, *LEFT, *KEYS, *ANSWERS, *ERRORS, *STREAMS)
BELOW_V1 = [row for row in (*ROUTES, *LEFT) if row.path.startswith("/v1/")]
LISTED = [
    row for row in (*ROUTES, *LEFT, *ROOTS) if row.status != 404 and row.method in {"GET", "POST", "DELETE"}
]


def bare(row: Row) -> str:
    return row.path.partition("?")[0]


def leads_to(resource: web.AbstractResource, path: str) -> bool:
    info = resource.get_info()
    return info["pattern"].fullmatch(path) is not None if "pattern" in info else info["path"] == path


async def begin(
    start: Starter,
    settings: GatewaySettings | None = None,
    hub: str | None = None,
    *,
    is_variant: bool = False,
) -> World:
    """A server of one model of each kind."""
    more: dict[str, Any] = {
        "capabilities": [capability for capability, entry in CAPABILITIES.items() if not entry.variant_only]
    }
    if is_variant:
        install_variant(start.folder, "llama-server")
        more = {
            "capabilities": ["chat_completion", "completion", "responses"],
            "variant_of": "llamacpp",
            "platforms": {"linux": {"cpu": {"binary": "llama-server"}}},
        }
    block = {"command": "/bin/true", "args": []}
    documents = (
        make_document(recipe="plain", capabilities=["chat_completion"]),
        make_document(recipe="silent", capabilities=["responses"]),
        make_document(recipe="foreign", platforms={"darwin": {"metal": block}}),
    )
    return await start(
        engine,
        settings=settings,
        files={f"{document['recipe']}.json": json.dumps(document) for document in documents},
        models={
            "embed": MODEL | {"labels": ["embeddings"]},
            "rank": MODEL | {"labels": ["reranking"]},
            "say": MODEL | {"labels": ["tts"]},
            "draw": MODEL | {"labels": ["image"]},
            "gone": MODEL | {"checkpoint": "org/gone:model.gguf"},
            "lost": MODEL | {"recipe": "nowhere"},
            **{recipe: MODEL | {"recipe": recipe} for recipe in ("plain", "silent", "foreign")},
        },
        environ=None if hub is None else {"HF_ENDPOINT": hub},
        **more,
    )


async def ask(world: World, row: Row, path: str | None = None) -> Reply:
    body = (
        b""
        if row.body is None
        else row.body
        if isinstance(row.body, bytes)
        else json.dumps(row.body).encode()
    )
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **row.headers}
    return await world.request(row.method, path or row.path, headers, body)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_row(start: Starter, row: Row) -> None:
    with ExitStack() as stack:
        hub = None
        if row.hub:
            site = stack.enter_context(hub_site())
            site.repos["org/repo"] = Repo({"model.gguf": b"GGUF"})
            hub = site.url
        world = await begin(start, row.settings, hub, is_variant=row.is_variant)
        if row.loaded:
            await world.post("/v1/load", {"model_name": "m"})

        reply = await ask(world, row)

    assert reply.status == row.status, reply.body
    assert row.told.items() <= dict(reply.headers).items()
    assert row.body_of is None or row.body_of(reply.body), reply.body
    assert row.sent is None or row.sent(json.loads(world.driver.received[-1].body))
    if callable(row.answer):
        assert row.answer(reply.json), reply.json
    elif row.answer:
        assert row.answer.items() <= reply.json.items(), reply.json
    assert row.text in reply.body.decode()


@pytest.mark.parametrize("prefix", ["/api/v0", "/api/v1", "/v0"])
async def test_the_prefixes_are_the_same(start: Starter, prefix: str) -> None:
    world = await begin(start)
    await world.post("/v1/load", {"model_name": "m"})

    told = {
        row.name: (await ask(world, row, path=prefix + row.path.removeprefix("/v1"))).status
        for row in BELOW_V1
    }

    assert told == {row.name: row.status for row in BELOW_V1}


async def test_no_listed_route_is_unknown_to_head(start: Starter) -> None:
    world = await begin(start)
    await world.post("/v1/load", {"model_name": "m"})

    told = {row.path: (await world.request("HEAD", row.path)).status for row in LISTED}

    assert {path for path, status in told.items() if status == 404} == set()


@pytest.mark.parametrize("prefix", ["/api/v0", "/api/v1", "/v0", "/v1"])
async def test_get_of_what_is_for_post_says_so(start: Starter, prefix: str) -> None:
    world = await begin(start)
    gettable = {bare(row) for row in LISTED if row.method == "GET" and row.status != 405}
    paths = {
        bare(row).removeprefix("/v1/")
        for row in BELOW_V1
        if row.method == "POST" and bare(row) not in gettable
    }
    assert len(paths) > 30

    told = {path: await world.get(f"{prefix}/{path}") for path in sorted(paths)}

    assert {path: (reply.status, reply.json) for path, reply in told.items()} == dict.fromkeys(
        told, (405, POST_ONLY)
    )


def test_every_route_has_a_row() -> None:
    """Of those that are there four times, the one below `/v1`."""
    router = web.Application().router
    add_routes(router)
    asked = {(row.method, bare(row)) for row in ROWS}

    untold = [
        f"{route.method} {route.resource.canonical}"
        for route in router.routes()
        if route.resource is not None
        and route.method != "HEAD"
        and not route.resource.canonical.startswith(("/api/v0/", "/api/v1/", "/v0/"))
        and not any(route.method == method and leads_to(route.resource, path) for method, path in asked)
    ]

    assert untold == []


async def test_an_answer_varies_by_origin(start: Starter) -> None:
    reply = await ask(await begin(start), Row("", "GET", "/v1/models", 200))

    assert reply.values("Vary") == ["Origin"]
