"""Clients and engines that do what hardly any does."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable

import pytest

from tests.fakes.driver import Connection, Script
from tests.unit.gateway.wire import Client, as_chunk, chunked, message, ok
from tests.unit.gateway.world import Starter, World

CHAT = "/v1/chat/completions"
UPLOAD = "/v1/audio/transcriptions"
BODY = b'{"model":"m"}'
EVENTS = "text/event-stream"
FORM = {"Content-Type": "multipart/form-data; boundary=b"}
PARTS = (
    b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n%b\r\n--b--\r\n'
)
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"


async def keeps_on(connection: Connection) -> None:
    while True:
        request = await connection.request()
        await connection.send(ok(json.dumps({"target": request.target}).encode()))


async def rest(client: Client) -> bytes:
    async with asyncio.timeout(5):
        return await client.reader.read()


def idle(world: World) -> bool:
    return not any(status.in_flight for status in world.pool.statuses())


# --- who waits for a load ---------------------------------------------------------------------------------


async def test_two_requests_in_one_segment_where_the_first_waits_for_its_load(start: Starter) -> None:
    world = await start(keeps_on)
    world.driver.ready.clear()
    client = await world.client()
    await client.send(message("POST", f"{CHAT}?n=1", {}, BODY) + message("GET", "/live") + b"POST ")
    await world.until(lambda: bool(world.driver.engines and world.driver.engines[0].started))
    await client.send(message("POST", f"{CHAT}?n=2", {}, BODY)[5:])
    world.driver.ready.set()

    assert (await client.reply()).json == {"target": f"{CHAT}?n=1"}
    assert (await client.reply()).json == {"status": "ok"}
    assert (await client.reply()).json == {"target": f"{CHAT}?n=2"}


async def test_who_leaves_with_requests_behind_the_one_that_loads(start: Starter) -> None:
    world = await start(keeps_on)
    world.driver.ready.clear()
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY) * 3)
    await world.until(lambda: bool(world.driver.engines and world.driver.engines[0].started))

    client.abort()

    await world.until(lambda: world.driver.engines[0].stopped)
    assert not world.driver.received


# --- engines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "status", "body"),
    [
        (b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello", 204, b""),
        (b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\nhello", 304, b""),
        (b"HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n", 205, b""),
        (b"HTTP/1.0 200 OK\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", 200, b"hello"),
        (ok(b"hello", "text/plain") + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", 200, b"hello"),
        (ok(b"hello", "text/plain") + b"more than it said", 200, b"hello"),
    ],
)
async def test_an_odd_answer_is_one_answer(start: Starter, sent: bytes, status: int, body: bytes) -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(sent)

    world = await start(script)
    for _ in range(2):
        client = await world.client()
        await client.send(message("POST", CHAT, {}, BODY) + message("GET", "/live"))

        reply = await client.reply()

        assert (reply.status, reply.body, reply.complete) == (status, body, True)
        assert (await client.reply()).json == {"status": "ok"}


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200,
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
    ],
)
async def test_an_answer_that_can_be_read_in_two_ways_is_none(start: Starter, sent: bytes) -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(sent)

    world = await start(script)

    reply = await world.post(CHAT, BODY)

    assert (reply.status, reply.error["type"]) == (502, "network_error")
    await world.until(lambda: idle(world))


@pytest.mark.parametrize(
    "before", [b"HTTP/1.1 200 OK\r\n", chunked("text/plain", b"a", end=False) + b"0\r\n"]
)
async def test_header_lines_without_an_end_are_not_kept(
    start: Starter, caplog: pytest.LogCaptureFixture, before: bytes
) -> None:
    sent = 0

    async def floods(connection: Connection) -> None:
        nonlocal sent
        await connection.request()
        await connection.send(before)
        while True:
            await connection.send(b"X: " + b"y" * 10_000 + b"\r\n")
            sent += 10_000

    world = await start(floods)

    reply = await world.post(CHAT, BODY)

    assert reply.status == 502 or not reply.complete
    assert "header lines without an end" in caplog.text
    assert sent < 8 << 20


@pytest.mark.parametrize("closes", [Connection.reset, lambda connection: connection.writer.close()])
@pytest.mark.parametrize(("begun", "asked"), [(b"", 2), (b"H", 1), (b"HTTP/1.1 100 Continue\r\n\r\n", 1)])
async def test_a_request_is_sent_again_only_if_nothing_of_an_answer_came(
    start: Starter, closes: Callable[[Connection], None], begun: bytes, asked: int
) -> None:  # H11
    """An engine may close a connection that was idle in the moment in which it is used again."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(ok(b"{}"))
        if len(world.driver.received) > 1:
            return
        await connection.request()
        await connection.send(begun)
        await asyncio.sleep(0.02 if begun else 0)
        closes(connection)

    world = await start(script)
    await world.post(CHAT, BODY)

    reply = await world.post(CHAT, BODY)

    assert reply.status == (200 if asked == 2 else 502)
    assert len(world.driver.received) == 1 + asked


async def test_a_request_that_an_engine_worked_on_is_not_sent_again(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:  # H11
    monkeypatch.setattr("lemonpod.gateway.data.upstream._RACE", 0.05)

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(ok(b"{}"))
        await connection.request()
        await asyncio.sleep(0.2)
        connection.reset()

    world = await start(script)
    await world.post(CHAT, BODY)

    assert (await world.post(CHAT, BODY)).status == 502
    assert len(world.driver.received) == 2


@pytest.mark.parametrize("path", [CHAT, UPLOAD])
@pytest.mark.parametrize("stays", [True, False])
async def test_an_answer_before_the_upload_was_read_is_heard(start: Starter, path: str, stays: bool) -> None:
    async def refuses(connection: Connection) -> None:
        await connection.head()
        await connection.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        if stays:
            await connection.gone()
        else:
            connection.writer.write_eof()
            await connection.gone()

    world = await start(refuses, capabilities=["chat_completion", "transcription"])
    for _ in range(3):
        if path == CHAT:
            reply = await world.post(CHAT, b'{"model":"m","x":"%b"}' % (b"x" * (8 << 20)))
        else:
            reply = await world.post(UPLOAD, PARTS % (b"x" * (8 << 20)), FORM)
        assert (reply.status, reply.error["message"]) == (413, "big")
    await world.until(lambda: idle(world))


# --- clients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [False, True])
async def test_half_an_upload_is_nothing(start: Starter, chunks: bool) -> None:
    world = await start(keeps_on, capabilities=["transcription"])
    client = await world.client()
    framing = {"Transfer-Encoding": "chunked"} if chunks else {"Content-Length": "3000000"}
    piece = PARTS.partition(b"%b")[0] + b"x" * 2_000_000
    await client.send(message("POST", UPLOAD, FORM | framing, as_chunk(piece) if chunks else piece))
    client.writer.write_eof()

    assert await rest(client) == b""
    assert not world.driver.engines
    await world.until(lambda: bool(world.activities.tail(1)))
    assert world.activities.tail(1)[0]["ending"] == "client_left"


async def test_an_upload_that_breaks_at_once_leaves_nothing_behind(start: Starter) -> None:
    """Its task has not begun yet when its end is known."""
    world = await start(keeps_on, capabilities=["transcription"])
    head = message("POST", UPLOAD, FORM | {"Transfer-Encoding": "chunked"})

    reply = await world.raw(head + as_chunk(b"x" * 40_000) + b"zz\r\n")
    gc.collect()

    assert (reply.status, reply.error) == (400, "The request is not HTTP as it should be")
    assert [told["status"] for told in world.activities.tail(9)] == [400]


@pytest.mark.parametrize("path", [CHAT, "/v1/load"])
@pytest.mark.parametrize("split", [False, True])
async def test_expect_with_chunks(start: Starter, path: str, split: bool) -> None:  # H07
    world = await start(keeps_on)
    client = await world.client()
    head = message("POST", path, {"Expect": "100-continue", "Transfer-Encoding": "chunked"})
    for piece in [head[:30], head[30:]] if split else [head]:
        await client.send(piece)
        await asyncio.sleep(0.01)
    assert (await client.head()).status == 100

    await client.send(as_chunk(b'{"model":"m"}') + b"0\r\n\r\n" + message("GET", "/live"))

    assert (await client.reply()).status == 200
    assert (await client.reply()).json == {"status": "ok"}


async def test_a_body_where_none_belongs_is_read_past(start: Starter) -> None:
    world = await start(keeps_on, capabilities=["slots"])
    client = await world.client()
    evil = b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"
    for framing in ({}, {"Transfer-Encoding": "chunked"}):
        body = as_chunk(evil) + b"0\r\n\r\n" if framing else evil
        await client.send(message("GET", "/v1/slots?model=m", framing, body))
        assert (await client.reply()).json == {"target": "/v1/slots?model=m"}
    await client.send(message("GET", "/live", {}, evil) + message("GET", "/v1/models"))

    assert (await client.reply()).json == {"status": "ok"}
    assert "data" in (await client.reply()).json
    assert {received.body for received in world.driver.received} == {b""}


async def test_a_head_that_trickles_is_given_up(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:  # H41
    monkeypatch.setattr("lemonpod.gateway.runner._IDLE_TIMEOUT", 0.2)
    world = await start(keeps_on)
    client = await world.client()
    await client.send(message("GET", "/live"))
    assert (await client.reply()).status == 200

    async def trickle() -> None:
        await client.send(b"GET /live HTTP/1.1\r\nHost: a\r\nX: ")
        while True:
            await client.send(b"x")
            await asyncio.sleep(0.02)

    trickling = asyncio.create_task(trickle())
    try:
        async with asyncio.timeout(3):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await client.reader.readexactly(1)
    finally:
        trickling.cancel()
        await asyncio.gather(trickling, return_exceptions=True)


# --- whoever breaks off, whenever -------------------------------------------------------------------------


def engine_that(first: bytes, act: Callable[[Connection], None]) -> Script:
    async def script(connection: Connection) -> None:
        await connection.head() if first == b"head" else await connection.request()
        await connection.send(b"" if first == b"head" else first)
        await asyncio.sleep(0.01)
        act(connection)

    return script


ANSWERS = {
    "before-the-body": b"head",
    "before-the-answer": b"",
    "in-the-line": b"HTTP/1.1 2",
    "in-the-head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "in-json": JSON_HEAD + b"{",
    "in-bytes": chunked("audio/mpeg", b"abc", end=False),
    "in-a-chunk": chunked("audio/mpeg", end=False) + b"10\r\nabc",
    "in-an-event": chunked(EVENTS, b"data: a\n\ndata: ", end=False),
    "in-an-error": b"HTTP/1.1 500 X\r\nContent-Length: 9\r\n\r\nabc",
    "in-the-end": chunked("audio/mpeg", b"abc", end=False) + b"0\r\n",
}


@pytest.mark.parametrize("first", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("closes", [Connection.reset, lambda connection: connection.writer.close()])
async def test_an_engine_that_ends_at_any_stage(
    start: Starter, first: bytes, closes: Callable[[Connection], None]
) -> None:
    world = await start(engine_that(first, closes))

    reply = await world.post(CHAT, BODY)

    assert reply.status == 502 or not reply.complete
    await world.until(lambda: idle(world))
    assert world.activities.tail(1)[0]["ending"] == "engine_broke_off"
    assert (await world.get("/live")).status == 200


@pytest.mark.parametrize("path", [CHAT, UPLOAD])
@pytest.mark.parametrize("leaves", ["abort", "close"])
async def test_a_client_that_ends_at_any_stage(start: Starter, path: str, leaves: str) -> None:
    async def slowly(connection: Connection) -> None:
        await connection.request()
        await connection.send(chunked(EVENTS, b"data: a\n\n", end=False))
        await connection.gone()

    world = await start(slowly, capabilities=["chat_completion", "transcription"])
    await world.post("/v1/load", {"model_name": "m"})
    sent = message("POST", CHAT, {}, BODY) if path == CHAT else message("POST", UPLOAD, FORM, PARTS % b"RIFF")

    async def leave_after(count: int) -> None:
        client = await world.client()
        await client.send(sent[:count])
        await asyncio.sleep(0.002)
        if leaves == "abort":
            client.abort()
        else:
            client.writer.close()

    for at in range(0, len(sent) + 1, 1 if path == CHAT else 5):
        await leave_after(at)
    await leave_after(len(sent))

    await world.until(lambda: idle(world) and world.driver.hung_up == len(world.driver.received))
    endings: set[object] = {told["ending"] for told in world.activities.tail(1000)}
    assert endings == {"client_left"}
    assert (await world.get("/live")).status == 200
