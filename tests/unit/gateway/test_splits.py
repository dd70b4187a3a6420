"""The same bytes in other pieces mean the same, from clients and from engines."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.fakes.driver import Connection
from tests.unit.gateway.wire import Reply, as_chunk, chunked, message, ok
from tests.unit.gateway.world import Starter, World

CHAT = "/v1/chat/completions"
BODY = b'{"model":"m"}'
EVENTS = "text/event-stream"
OFFER = {"Connection": "Upgrade", "Upgrade": "h2c", "Transfer-Encoding": "chunked"}


async def keeps_on(connection: Connection) -> None:
    while True:
        request = await connection.request()
        await connection.send(ok(json.dumps({"body": request.body.decode()}).encode()))


async def in_two(world: World, first: bytes, second: bytes, count: int) -> list[Reply]:
    client = await world.client()
    await client.send(first)
    await asyncio.sleep(0.0005)
    await client.send(second)
    async with asyncio.timeout(5):
        replies = [await client.reply() for _ in range(count)]
    client.abort()
    return replies


@pytest.mark.parametrize(
    ("sent", "count"),
    [
        (message("POST", CHAT, {}, BODY) + message("GET", "/live") + message("POST", CHAT, {}, BODY), 3),
        (
            message("POST", CHAT, {"Transfer-Encoding": "chunked", "Trailer": "X"})
            + b"3;a=b\r\n" + BODY[:3] + b"\r\n" + as_chunk(BODY[3:]) + b"0\r\nX: y\r\nZ: 1\r\n\r\n"
            + message("POST", CHAT, {}, BODY),
            2,
        ),
        (message("POST", CHAT, OFFER) + as_chunk(BODY) + b"0\r\n\r\n" + message("POST", CHAT, {}, BODY), 2),
        (b"\r\n" + message("POST", CHAT, {}, BODY) + b"\r\n\r\n" + message("GET", "/live"), 2),
    ],
    ids=["pipelined", "chunks", "upgrade", "blank-lines"],
)  # fmt: skip
async def test_requests_split_anywhere(start: Starter, sent: bytes, count: int) -> None:
    world = await start(keeps_on)
    await world.post(CHAT, BODY)
    whole = [(reply.status, reply.body) for reply in await in_two(world, sent, b"", count)]
    assert {status for status, _ in whole} == {200}

    for at in range(1, len(sent)):
        replies = await in_two(world, sent[:at], sent[at:], count)
        assert [(reply.status, reply.body) for reply in replies] == whole, sent[:at]
    assert {received.body for received in world.driver.received} == {b'{"model":"user.m"}'}


@pytest.mark.parametrize(
    "sent",
    [
        ok(b'{"model":"/x","a":"\xc3\xa9"}'),
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'a;x="y"\r\n{"model":"\r\n4\r\n/x"}\r\n0;z\r\nX: trailer\r\n\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + ok(b"{}"),
        b"HTTP/1.1 102 Processing\r\n\r\n" + chunked(EVENTS, b'data: {"model":"x","content":"a"}\n\n'),
        chunked("audio/mpeg", b"abc", b"d" * 20),
        b"HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n" + as_chunk(b"busy") + b"0\r\nA: b\r\n\r\n",
    ],
    ids=["json", "chunks", "hints", "events", "bytes", "error"],
)
async def test_answers_split_anywhere(start: Starter, sent: bytes) -> None:
    at = 0

    async def splits(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.send(sent[:at])
            await asyncio.sleep(0.0005)
            await connection.send(sent[at:])

    world = await start(splits)
    whole = await world.post(CHAT, BODY)
    assert whole.complete

    for cut in range(1, len(sent)):
        at = cut
        reply = await world.post(CHAT, BODY)
        assert (reply.status, reply.body, reply.complete) == (whole.status, whole.body, True), sent[:at]
        assert not reply.values("X") + reply.values("A") + reply.values("Link")
    assert world.driver.engines[0].connections == 1  # each answer left it clean
