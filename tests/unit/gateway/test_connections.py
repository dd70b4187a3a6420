"""What happens on a connection besides one request: more of them, halves of them, and none."""

from __future__ import annotations

import asyncio
import json

import pytest

from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import Client, as_chunk, chunked, message, ok
from tests.unit.gateway.world import Starter

CHAT = "/v1/chat/completions"
BODY = b'{"model":"m"}'
EVENTS = "text/event-stream"


async def answer(connection: Connection) -> None:
    await connection.request()
    await connection.send(ok(b"{}"))


async def keeps_on(connection: Connection) -> None:
    """An engine that keeps its connections, and says in each answer what it was asked."""
    while True:
        request = await connection.request()
        await connection.send(ok(json.dumps({"target": request.target}).encode()))


async def rest(client: Client) -> bytes:
    async with asyncio.timeout(5):
        return await client.reader.read()


# --- one behind the other ---------------------------------------------------------------------------------


async def test_pipelined_requests_are_answered_in_their_order(start: Starter) -> None:
    world = await start(keeps_on)
    client = await world.client()
    await client.send(
        b"".join(message("POST", f"{CHAT}?n={n}", {}, BODY) + message("GET", "/live") for n in range(100))
    )

    for n in range(100):
        assert (await client.reply()).json == {"target": f"{CHAT}?n={n}"}
        assert (await client.reply()).json == {"status": "ok"}


async def test_what_waits_for_its_turn_is_bounded(start: Starter) -> None:
    go_on = asyncio.Event()

    async def waits(connection: Connection) -> None:
        await connection.request()
        await go_on.wait()
        await connection.send(ok(b"{}"))
        await keeps_on(connection)

    world = await start(waits)
    client = await world.client()
    count = 3000
    request = message("POST", CHAT, {"X-Pad": "x" * 10_000}, BODY)
    sending = asyncio.create_task(client.send(request * count))
    await world.until(lambda: bool(world.driver.received))
    await asyncio.sleep(0.2)
    assert not sending.done()  # 30 MB do not fit into what is between

    go_on.set()

    for _ in range(count):
        assert (await client.reply()).status == 200
    await sending


@pytest.mark.parametrize(
    "junk", [b"\x16\x03\x01", b"GET /live HTTP/1.1\r\nBad Name: x\r\n\r\n", b"nope\r\n\r\n"]
)
async def test_junk_behind_a_request_is_refused_behind_its_answer(start: Starter, junk: bytes) -> None:
    world = await start(answer)
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY) + message("GET", "/live") + junk)

    assert (await client.reply()).status == 200
    assert (await client.reply()).status == 200
    refused = await client.reply()
    assert (refused.status, refused.error) == (400, "The request is not HTTP as it should be")
    assert refused.value("Connection") == "close"
    assert await rest(client) == b""


async def test_a_body_that_breaks_is_refused_in_json(start: Starter) -> None:
    world = await start(answer)
    client = await world.client()
    await client.send(message("POST", CHAT, {"Transfer-Encoding": "chunked"}) + b"2\r\n{}\r\nzz\r\n")

    reply = await client.reply()

    assert (reply.status, reply.error) == (400, "The request is not HTTP as it should be")
    assert not world.driver.received
    assert await rest(client) == b""


@pytest.mark.parametrize("path", ["/v1/load", "/nope"])
async def test_a_control_body_that_breaks_is_refused_in_json(start: Starter, path: str) -> None:
    world = await start(answer)
    client = await world.client()
    await client.send(message("POST", path, {"Transfer-Encoding": "chunked"}) + b"2\r\n{}\r\nzz\r\n")

    reply = await client.reply()

    assert reply.status in {400, 404}
    assert reply.error


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"X-Long: " + b"x" * 70_000 + b"\r\n", 431),
        (b"X: y\r\n" * 129, 431),
        (b"Host: b\r\n", 400),
    ],
)
async def test_a_head_beyond_all_use_is_refused(start: Starter, head: bytes, status: int) -> None:
    world = await start(answer)

    reply = await world.raw(b"GET /live HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n")

    assert reply.status == status
    assert reply.error


@pytest.mark.parametrize("endless", [b"X: y\r\n", b"0;ext=", b"GET /live HTTP/1.1\r\nHost: a\r\nX: "])
async def test_nothing_is_read_without_an_end(start: Starter, endless: bytes) -> None:
    world = await start(answer)
    client = await world.client()
    if endless.startswith(b"X"):  # trailers
        await client.send(message("POST", CHAT, {"Transfer-Encoding": "chunked"}) + b"0\r\n")
    elif endless.startswith(b"0"):  # what stands behind a chunk's size
        await client.send(message("POST", CHAT, {"Transfer-Encoding": "chunked"}) + endless)
    else:
        await client.send(endless)

    async def flood() -> None:
        while True:
            await client.send(b"X: y\r\n" * 2000 if endless.startswith(b"X") else b"x" * 12_000)

    flooding = asyncio.create_task(flood())
    try:
        assert (await client.reply()).status == 431
    finally:
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)
    assert not world.driver.received


async def test_an_old_client_may_keep_its_connection(start: Starter) -> None:
    world = await start(keeps_on)
    client = await world.client()
    request = b"POST %b HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n%b"
    await client.send(request % (CHAT.encode(), len(BODY), BODY) * 2)

    for _ in range(2):
        reply = await client.reply()
        assert (reply.status, reply.value("Connection")) == (200, "keep-alive")


async def test_nothing_behind_a_last_request_is_one(start: Starter) -> None:
    world = await start(answer)
    client = await world.client()
    await client.send(message("GET", "/live", {"Connection": "close"}) + message("POST", CHAT, {}, BODY))

    assert (await client.reply()).status == 200
    assert await rest(client) == b""
    assert not world.driver.received


@pytest.mark.parametrize("chunks", [False, True])
async def test_an_offer_to_upgrade_leaves_the_next_request_alone(start: Starter, chunks: bool) -> None:
    world = await start(keeps_on)
    client = await world.client()
    offer = {"Connection": "Upgrade", "Upgrade": "h2c"}
    if chunks:
        await client.send(message("POST", CHAT, offer | {"Transfer-Encoding": "chunked"}))
        await client.send(as_chunk(BODY[:4]) + as_chunk(BODY[4:]) + b"0\r\nX: y\r\n\r\n")
    else:
        await client.send(message("POST", CHAT, offer, BODY))
    await client.send(message("GET", "/live", {"Upgrade": "websocket", "Connection": "upgrade"}))
    await client.send(message("POST", CHAT, {}, BODY))

    assert [(await client.reply()).status for _ in range(3)] == [200, 200, 200]
    assert [received.body for received in world.driver.received] == [b'{"model":"user.m"}'] * 2


# --- half of a connection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, "/v1/load", "/v1/unload"])
async def test_who_has_no_more_to_say_still_listens(start: Starter, path: str) -> None:
    world = await start(answer)
    client = await world.client()
    await client.send(message("POST", path, {}, b'{"model":"m"}') + message("GET", "/live"))
    client.writer.write_eof()

    received = (await rest(client)).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")

    assert received.count(b"HTTP/1.1 ") == 2
    assert received.endswith(b'{"status": "ok"}')


async def test_a_stream_goes_on_for_who_has_no_more_to_say(start: Starter) -> None:
    async def slowly(connection: Connection) -> None:
        await connection.request()
        await asyncio.sleep(0.1)
        await connection.send(chunked(EVENTS, b"data: a\n\n", end=False))
        await asyncio.sleep(0.1)
        await connection.send(as_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    world = await start(slowly)
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY))
    client.writer.write_eof()

    received = await rest(client)

    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert received.endswith(as_chunk(b"data: a\n\n") + as_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


async def test_half_a_request_is_nothing(start: Starter) -> None:
    world = await start(answer)
    client = await world.client()
    await client.send(message("POST", CHAT, {"Content-Length": "100"}, b"{"))
    client.writer.write_eof()

    assert await rest(client) == b""
    assert not world.driver.received


# --- bodies that nobody wants -----------------------------------------------------------------------------


async def test_a_body_that_is_too_long_is_not_asked_for(start: Starter) -> None:
    world = await start(answer, settings=GatewaySettings(max_body=10))
    client = await world.client()
    await client.send(message("POST", CHAT, {"Expect": "100-continue", "Content-Length": "11"}))

    reply = await client.reply()

    assert reply.status == 413
    assert await rest(client) == b""


async def test_who_does_not_wait_is_not_told_to_go_on(start: Starter) -> None:
    world = await start(answer)

    reply = await world.post(CHAT, BODY, {"Expect": "100-continue"})

    assert reply.status == 200


@pytest.mark.parametrize("path", [CHAT, "/v1/load", "/v1/models"])
async def test_an_early_answer_leaves_the_connection_usable(start: Starter, path: str) -> None:
    world = await start(answer, settings=GatewaySettings(api_key="k"))
    client = await world.client()
    await client.send(message("POST", path, {"Content-Length": "200000"}, b"x" * 1000))
    assert (await client.reply()).status == 401

    await client.send(b"x" * 199_000 + message("GET", "/live"))

    assert (await client.reply()).json == {"status": "ok"}


# --- control requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["http://[/live", "*", "live", "http:///live", "http://h:x/live"])
async def test_a_target_that_is_none_is_refused_in_json(start: Starter, target: str) -> None:
    world = await start(answer)

    reply = await world.get(target)

    assert reply.status in {400, 404}
    assert reply.error
    assert (
        reply.value(
            "Content-Type",
        )
        == "application/json; charset=utf-8"
    )


async def test_connect_is_refused(start: Starter) -> None:
    world = await start(answer)

    assert (await world.request("CONNECT", "other.example:443")).status == 400


async def test_a_control_body_comes_in_pieces(start: Starter) -> None:
    world = await start(answer)
    client = await world.client()
    await client.send(message("POST", "/v1/load", {"Transfer-Encoding": "chunked"}))
    for piece in (b'{"model_', b'name":', b'"m"}'):
        await client.send(as_chunk(piece))
        await asyncio.sleep(0.01)
    await client.send(b"0\r\nX-Trailer: 1\r\n\r\n" + message("GET", "/live"))

    assert (await client.reply()).json["status"] == "success"
    assert (await client.reply()).json == {"status": "ok"}


async def test_a_control_answer_does_not_end_the_connection(start: Starter) -> None:
    world = await start(answer)
    client = await world.client()

    for _ in range(3):
        await client.send(message("GET", "/v1/models"))
        reply = await client.reply()
        assert (reply.status, reply.values("Connection")) == (200, [])
    await client.send(message("GET", "/live", {"Connection": "close"}))
    assert (await client.reply()).values("Connection") == ["close"]
    assert await rest(client) == b""
