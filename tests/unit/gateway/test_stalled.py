"""A client that reads nothing of its answer is dropped; one that reads slowly never is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection, Script
from tests.unit.gateway.wire import as_chunk, chunked, message, ok
from tests.unit.gateway.world import Starter, World

CHAT = "/v1/chat/completions"
BODY = b'{"model":"m"}'
DROPPED = "has read nothing"
BRIEF = GatewaySettings(write_timeout=0.3)
KEYED = GatewaySettings(api_key="sk-1", body_timeout=0.3)


async def flood(connection: Connection) -> None:
    await connection.request()
    await connection.send(chunked("text/event-stream", end=False))
    try:
        while True:
            await connection.send(as_chunk(b"data: " + b"x" * 30_000 + b"\n\n"))
    finally:
        connection.die_quietly()


async def one_lump(connection: Connection) -> None:
    await connection.request()
    try:
        await connection.send(ok(b"x" * (32 << 20), "audio/mpeg"))
        await connection.gone()
    finally:
        connection.die_quietly()


class Narrow:
    """A client that reads only when it is told to, and whose kernel takes little."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 10)
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()

    async def ask(self, world: World, request: bytes) -> None:
        await self._loop.sock_connect(self._socket, ("127.0.0.1", world.port))
        await self._loop.sock_sendall(self._socket, request)

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def read(self, most: int = 4 << 10) -> bytes:
        return await self._loop.sock_recv(self._socket, most)

    async def read_all(self) -> None:
        while await self.read():
            pass

    def end_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
async def client() -> AsyncIterator[Narrow]:
    client = Narrow()
    yield client
    client.close()


@pytest.mark.parametrize("script", [flood, one_lump])
async def test_who_reads_nothing_is_dropped(start: Starter, client: Narrow, script: Script) -> None:
    world = await start(script, settings=BRIEF)
    await client.ask(world, message("POST", CHAT, {}, BODY))

    await world.until(lambda: world.driver.hung_up == 1)

    assert not world.pool.statuses()[0].in_flight
    (told,) = world.activities.tail(9)
    assert (told["status"], told["ending"]) == (200, "client_stalled")
    with pytest.raises(ConnectionResetError):
        await client.read_all()


async def test_also_where_the_answer_is_over_for_us(
    start: Starter, client: Narrow, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine's connection is free again, but what it said lies here."""

    async def quick(connection: Connection) -> None:
        await connection.request()
        await connection.send(ok(b"x" * (16 << 20), "audio/mpeg", "Connection: close"))

    caplog.set_level("INFO")
    world = await start(quick, settings=BRIEF)
    await client.ask(world, message("POST", CHAT, {"Connection": "close"}, BODY))

    await world.until(lambda: bool(world.activities.tail(9)))
    await world.until(lambda: not world.pool.statuses()[0].in_flight)
    await world.until(lambda: DROPPED in caplog.text)
    with pytest.raises(ConnectionResetError):
        await client.read_all()


@pytest.mark.parametrize("script", [flood, one_lump])
async def test_who_reads_slowly_is_not(start: Starter, client: Narrow, script: Script) -> None:
    world = await start(script, settings=BRIEF)
    await client.ask(world, message("POST", CHAT, {}, BODY))

    for _ in range(60):  # several times the timeout
        assert await client.read()
        await asyncio.sleep(0.02)

    assert world.pool.statuses()[0].in_flight == 1
    assert not world.activities.tail(9)


async def test_a_control_answer_is_no_different(
    start: Starter, client: Narrow, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world = await start(flood, settings=BRIEF, output=["x" * 1000] * 40_000)
    await world.post("/v1/load", {"model_name": "m"})
    await client.ask(world, message("GET", "/internal/logs?model=m"))

    await world.until(lambda: DROPPED in caplog.text)
    with pytest.raises(ConnectionResetError):
        await client.read_all()


async def test_what_nobody_reads_the_answers_of_is_not_answered(start: Starter, client: Narrow) -> None:
    world = await start(flood, settings=KEYED)
    await client.ask(world, b"")
    sending = asyncio.create_task(client.send(message("POST", CHAT, {"X-Pad": "x" * 1000}) * 30_000))
    await asyncio.sleep(1.5)

    assert not sending.done()  # 30 MB do not fit into what is between
    sending.cancel()


async def test_it_is_answered_as_it_is_read(start: Starter, client: Narrow) -> None:
    world = await start(flood, settings=KEYED)
    await client.ask(world, message("POST", CHAT) * 20_000)
    client.end_sending()
    await asyncio.sleep(2 * KEYED.body_timeout)

    answers = b""
    while piece := await client.read(1 << 20):
        answers += piece
    assert answers.count(b"HTTP/1.1 401 ") == 20_000
