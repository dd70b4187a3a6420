"""Lemonade's HTTP interface, row by row: each names what is asked and what must be answered."""

from __future__ import annotations

import json

import pytest

from lemonpod.contract.vocabulary import CAPABILITIES
from tests.factories import make_document
from tests.fakes.driver import Connection
from tests.unit.gateway.rows.answers import ANSWERS
from tests.unit.gateway.rows.routes import ROUTES
from tests.unit.gateway.rows.row import CHAT, Row, error
from tests.unit.gateway.test_gates import MODEL
from tests.unit.gateway.wire import Reply, chunked, ok
from tests.unit.gateway.world import Starter


async def engine(connection: Connection) -> None:
    """Answers every route with a document that has all that one of them needs."""
    received = await connection.request()
    document = json.loads(received.body) if received.body.startswith(b"{") else {}
    match document.get("engine"):
        case "teapot":
            await connection.send(ok(b"short and stout", "text/plain").replace(b"200 OK", b"418 Teapot", 1))
        case "long":
            body = json.dumps(error("too long", "exceed_context_size_error")).encode()
            await connection.send(ok(body).replace(b"200 OK", b"400 Bad", 1))
        case "events":
            await connection.send(chunked("text/event-stream", b'data: {"choices": []}\n\n'))
        case _ if document.get("input") == "nothing":
            await connection.send(ok(b"", "audio/wav"))
        case _:
            answer = {
                "model": "anything",
                "choices": [{"message": {"content": "hi"}, "text": "hi", "finish_reason": "stop"}],
                "data": [{"index": 0, "embedding": [1.0]}],
                "tokens": [1, 2, 3],
            }
            await connection.send(ok(json.dumps(answer).encode()))


async def ask(start: Starter, row: Row) -> Reply:
    capabilities = [capability for capability, entry in CAPABILITIES.items() if not entry.variant_only]
    document = make_document(recipe="plain", capabilities=["chat_completion"])
    world = await start(
        engine,
        capabilities=capabilities,
        settings=row.settings,
        files={"plain.json": json.dumps(document)},
        models={
            "embed": MODEL | {"labels": ["embeddings"]},
            "rank": MODEL | {"labels": ["reranking"]},
            "say": MODEL | {"labels": ["tts"]},
            "draw": MODEL | {"labels": ["image"]},
            "plain": MODEL | {"recipe": "plain"},
        },
    )
    if row.loaded:
        await world.post("/v1/load", {"model_name": "m"})
    body = (
        b""
        if row.body is None
        else row.body
        if isinstance(row.body, bytes)
        else json.dumps(row.body).encode()
    )
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **row.headers}
    return await world.request(row.method, row.path, headers, body)


@pytest.mark.parametrize("row", [*ROUTES, *ANSWERS], ids=lambda row: row.name)
async def test_row(start: Starter, row: Row) -> None:
    reply = await ask(start, row)

    assert reply.status == row.status, reply.body
    if callable(row.answer):
        assert row.answer(reply.json), reply.json
    elif row.answer:
        assert row.answer.items() <= reply.json.items(), reply.json


async def test_the_page(start: Starter) -> None:
    reply = await ask(start, Row("/", "GET", "/", 200))

    assert (reply.value("Content-Type") or "").startswith("text/html")
    assert b"<html" in reply.body


async def test_streams(start: Starter) -> None:
    """B5: the headers of an event stream, and an end that is plain."""
    body = CHAT | {"stream": True, "engine": "events"}
    reply = await ask(start, Row("", "POST", "/v1/chat/completions", 200, body=body))

    assert reply.value("Content-Type") == "text/event-stream"
    assert reply.value("Cache-Control") == "no-cache"
    assert reply.value("Connection") == "keep-alive"
    assert reply.value("X-Accel-Buffering") == "no"
    assert reply.body.endswith(b"data: [DONE]\n\n")


async def test_an_answer_varies_by_origin(start: Starter) -> None:
    reply = await ask(start, Row("", "GET", "/v1/models", 200))

    assert reply.values("Vary") == ["Origin"]
