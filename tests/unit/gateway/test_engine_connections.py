"""Connections to engines: which are used again, and which never."""

from __future__ import annotations

import asyncio
import json
import resource

import pytest

from tests.fakes.driver import Connection
from tests.unit.gateway.wire import message, ok
from tests.unit.gateway.world import Starter

CHAT = "/v1/chat/completions"
BODY = b'{"model":"m"}'


async def keeps_on(connection: Connection) -> None:
    """An engine that keeps its connections, and says in each answer what it was asked."""
    while True:
        request = await connection.request()
        await connection.send(ok(json.dumps({"target": request.target}).encode()))


async def test_an_engines_connection_is_used_again(start: Starter) -> None:
    world = await start(keeps_on)

    for n in range(20):
        assert (await world.post(f"{CHAT}?n={n}", BODY)).json == {"target": f"{CHAT}?n={n}"}

    assert world.driver.engines[0].connections == 1


@pytest.mark.parametrize(
    "sent", [ok(b"{}", "application/json", "Connection: close"), ok(b"{}") + b"HTTP", ok(b"{}") + ok(b"[]")]
)
async def test_a_connection_that_is_not_clean_is_not(start: Starter, sent: bytes) -> None:
    async def says_more(connection: Connection) -> None:
        await connection.request()
        await connection.send(sent)
        await connection.gone()

    world = await start(says_more)

    assert [(await world.post(CHAT, BODY)).body for _ in range(3)] == [b"{}"] * 3
    assert world.driver.engines[0].connections == 3


async def test_an_engine_with_one_thread_serves_all(start: Starter) -> None:
    """As long as a connection is open to it, such an engine serves no other."""
    thread = asyncio.Lock()

    async def in_a_thread(connection: Connection) -> None:
        async with thread:
            await keeps_on(connection)

    world = await start(in_a_thread)

    async def ask() -> int:
        return (await world.post(CHAT, BODY)).status

    async with asyncio.timeout(5):
        assert await asyncio.gather(*(ask() for _ in range(12))) == [200] * 12


async def test_a_connection_whose_answer_was_read_slowly_is_used_again(start: Starter) -> None:
    async def long_answers(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.send(ok(b"x" * (8 << 20), "audio/mpeg"))

    world = await start(long_answers)
    for _ in range(4):
        client = await world.client()
        await client.send(message("POST", CHAT, {}, BODY))
        await asyncio.sleep(0.05)
        assert len((await client.reply()).body) == 8 << 20


async def test_an_answer_before_the_whole_request_ends_the_connection(start: Starter) -> None:
    async def refuses(connection: Connection) -> None:
        await connection.head()
        await connection.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await connection.gone()

    world = await start(refuses)
    body = b'{"model":"m","x":"' + b"x" * (16 << 20) + b'"}'

    assert [(await world.post(CHAT, body)).status for _ in range(2)] == [413, 413]
    assert world.driver.engines[0].connections == 2


async def test_news_before_the_answer_is_not_the_answer(start: Starter) -> None:
    async def says_wait(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
        await connection.send(ok(b"{}"))

    world = await start(says_wait)
    reply = await world.post(CHAT, BODY)

    assert (reply.status, reply.body, reply.value("Link")) == (200, b"{}", None)


async def test_a_request_that_was_begun_to_be_answered_is_not_sent_again(start: Starter) -> None:
    asked = 0

    async def half_an_answer(connection: Connection) -> None:
        nonlocal asked
        await connection.request()
        asked += 1
        await connection.send(ok(b"{}"))
        await connection.request()
        asked += 1
        await connection.send(b"HTTP/1.1 200 O")

    world = await start(half_an_answer)

    assert [(await world.post(CHAT, BODY)).status for _ in range(2)] == [200, 502]
    assert asked == 2


async def test_a_model_that_is_loaded_again_gets_new_connections(start: Starter) -> None:
    world = await start(keeps_on)
    await world.post(CHAT, BODY)
    await world.post("/v1/unload", {"model_name": "m"})

    assert (await world.post(CHAT, BODY)).status == 200
    assert [engine.connections for engine in world.driver.engines] == [1, 1]


async def test_each_data_request_is_told_of_when_it_is_over(start: Starter) -> None:
    async def slowly(connection: Connection) -> None:
        request = await connection.request()
        if b"stay" in request.body:
            await connection.gone()
        await connection.send(ok(b'{"usage":{"prompt_tokens":7,"completion_tokens":3}}'))

    world = await start(slowly)
    await world.post(CHAT, BODY)
    await world.post(CHAT, {"model": "nope"})
    leaver = await world.client()
    await leaver.send(message("POST", CHAT, {}, b'{"model":"m","stay":1}'))
    await world.until(lambda: len(world.driver.received) == 2)
    leaver.abort()
    await world.until(lambda: world.driver.hung_up == 1)

    told = (await world.get("/internal/activity")).json["requests"]

    assert [(one["model"], one["status"], one["ending"]) for one in told] == [
        ("m", 200, "complete"),
        ("nope", 404, "error"),
        ("m", None, "client_left"),
    ]
    assert (told[0]["input_tokens"], told[0]["output_tokens"], told[0]["bytes_in"]) == (7, 3, len(BODY))
    assert told[0]["load_ms"] > 0
    assert (await world.get("/internal/activity?tail=1")).json["requests"] == told[-1:]
    assert (await world.get("/internal/activity?tail=x")).status == 400


async def test_a_lack_of_files_is_not_the_engines_fault(start: Starter) -> None:
    world = await start(keeps_on)
    await world.post(CHAT, {"model": "m"}, {"Connection": "close"})
    client = await world.client()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    await asyncio.sleep(1.5)  # until the engine's connection is closed, as nobody uses it
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        await client.send(message("POST", CHAT, {}, BODY))
        reply = await client.reply()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert reply.status == 502
    assert "may open no more files" in reply.error["message"]
