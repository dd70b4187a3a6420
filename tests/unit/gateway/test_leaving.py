"""A client that leaves ends its engine's work at once (H02, H03), and many can be there (H41)."""

from __future__ import annotations

import asyncio
import time

from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import Client, as_chunk, chunked, message
from tests.unit.gateway.world import Starter

CHAT = "/v1/chat/completions"
BODY = b'{"model":"m"}'
EVENTS = "text/event-stream"


async def silent(connection: Connection) -> None:
    await connection.request()
    await connection.gone()


async def test_before_the_first_byte(start: Starter) -> None:  # H02
    world = await start(silent)
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY))
    await world.until(lambda: len(world.driver.received) == 1)

    client.abort()

    await world.until(lambda: world.driver.hung_up == 1)
    await world.until(lambda: not world.pool.statuses()[0].in_flight)


async def test_in_the_middle_while_the_engine_is_silent(start: Starter) -> None:  # H03
    async def one_chunk(connection: Connection) -> None:
        await connection.request()
        await connection.send(chunked("text/plain", b"a", end=False))
        await connection.gone()

    world = await start(one_chunk)
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY))
    await client.head()
    assert await client.chunk() == b"a"

    client.abort()

    await world.until(lambda: world.driver.hung_up == 1)


async def test_by_a_polite_end_of_the_connection(start: Starter) -> None:  # H03
    world = await start(silent)
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY))
    await world.until(lambda: len(world.driver.received) == 1)

    client.writer.close()

    await world.until(lambda: world.driver.hung_up == 1)


async def test_without_reading_while_the_engine_floods(start: Starter) -> None:  # H03
    async def flood(connection: Connection) -> None:
        await connection.request()
        await connection.send(chunked(EVENTS, end=False))
        try:
            while True:
                await connection.send(as_chunk(b"data: " + b"x" * 10_000 + b"\n\n"))
        finally:
            connection.die_quietly()

    world = await start(flood)
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY))
    await client.head()

    client.abort()

    await world.until(lambda: world.driver.hung_up == 1)
    await world.until(lambda: not world.pool.statuses()[0].in_flight)


async def test_two_leave_and_the_third_is_served(start: Starter) -> None:
    go_on = asyncio.Event()

    async def waits(connection: Connection) -> None:
        await connection.request()
        await connection.send(chunked(EVENTS, b"data: a\n\n", end=False))
        waiting = asyncio.create_task(connection.gone())
        await asyncio.wait({waiting, asyncio.create_task(go_on.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            await connection.send(as_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    world = await start(waits)
    clients = [await world.client() for _ in range(3)]
    for client in clients:
        await client.send(message("POST", CHAT, {}, BODY))
        await client.head()

    clients[0].abort()
    clients[2].abort()
    await world.until(lambda: world.driver.hung_up == 2)
    go_on.set()

    assert await clients[1].chunk() == b"data: a\n\n"
    assert await clients[1].chunk() == b"data: [DONE]\n\n"


async def test_during_the_load(start: Starter) -> None:
    world = await start(silent)
    world.driver.ready.clear()
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY))
    await world.until(lambda: len(world.driver.engines) == 1)

    client.abort()

    await world.until(lambda: world.driver.engines[0].stopped)
    assert not world.driver.received


async def test_one_of_two_during_the_load(start: Starter) -> None:
    async def answer(connection: Connection) -> None:
        await connection.request()
        await connection.send(chunked("text/plain", b"fine"))

    world = await start(answer)
    world.driver.ready.clear()
    leaver, stayer = await world.client(), await world.client()
    await leaver.send(message("POST", CHAT, {}, BODY))
    await stayer.send(message("POST", CHAT, {}, BODY))
    await world.until(lambda: [status.waiting for status in world.pool.statuses()] == [2])

    leaver.abort()
    await world.until(lambda: [status.waiting for status in world.pool.statuses()] == [1])
    world.driver.ready.set()

    assert (await stayer.reply()).body == b"fine"
    assert len(world.driver.received) == 1
    assert len(world.driver.engines) == 1


async def test_while_its_body_is_still_coming(start: Starter) -> None:
    world = await start(silent, settings=GatewaySettings(body_timeout=60))
    client = await world.client()
    await client.send(message("POST", CHAT, {"Content-Length": "100"}, b"{"))

    client.abort()

    assert (await world.get("/live")).status == 200
    assert not world.driver.engines


async def test_many_silent_streams_leave_room_for_the_rest(start: Starter) -> None:  # H41
    async def opens(connection: Connection) -> None:
        await connection.request()
        await connection.send(chunked(EVENTS, b"data: a\n\n", end=False))
        await connection.gone()

    world = await start(opens)
    clients = [await world.client() for _ in range(120)]

    async def begin(client: Client) -> bytes:
        await client.send(message("POST", CHAT, {}, BODY))
        await client.head()
        return await client.chunk()

    assert set(await asyncio.gather(*map(begin, clients))) == {b"data: a\n\n"}
    started = time.monotonic()
    health = await world.get("/v1/health")
    assert time.monotonic() - started < 1
    assert health.json["all_models_loaded"][0]["status"] == "in_use"
    assert health.json["all_models_loaded"][0]["is_streaming"]

    for client in clients:
        client.abort()

    await world.until(lambda: world.driver.hung_up == 120)
