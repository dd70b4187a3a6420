"""`/realtime` once it is open: frames of all sizes, and how either side ends it."""

from __future__ import annotations

import asyncio
import os

import pytest
from websockets.frames import Opcode

from lemonpod.engine.api import ExitStatus
from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection
from tests.fakes.socket import EngineSocket, echo
from tests.unit.gateway.sockets import REALTIME, StartSocket, dial, ending, idle, offer
from tests.unit.gateway.wire import message

# --- frames -----------------------------------------------------------------------------------------------


# H45
@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536, (4 << 20) + 1, 8 << 20])
async def test_frames_of_any_size_pass(serve: StartSocket, size: int) -> None:
    world = await serve(echo)
    client = await dial(world, compression=None)
    data = os.urandom(size)

    await client.send(data)

    assert await client.recv() == data


async def test_compressed_frames_pass_as_they_are(serve: StartSocket) -> None:  # H45
    async def script(connection: Connection) -> None:
        socket = await EngineSocket.accept(connection, deflates=True)
        while frame := await socket.frame():
            if frame.opcode is Opcode.TEXT:
                await socket.send(bytes(frame.data), text=True)

    world = await serve(script)
    client = await dial(world)
    text = "lemon " * 100_000

    await client.send(text)

    assert await client.recv() == text
    await client.close()
    await world.until(lambda: bool(world.activities.tail(1)))
    sent = world.activities.tail(1)[0]["bytes_out"]
    assert isinstance(sent, int)
    assert sent < len(text) / 10


async def test_the_longest_frame_is_the_settings(serve: StartSocket) -> None:
    world = await serve(echo, GatewaySettings(max_frame=1000))
    client = await dial(world, compression=None)
    await client.send(b"x" * 1000)
    assert await client.recv() == b"x" * 1000

    await client.send(b"x" * 1001)

    code, reason = await ending(client)
    assert code == 1009
    assert reason == "a frame of the client is longer than 1000 bytes (see max_frame)"
    await world.until(lambda: idle(world))


async def test_a_frame_of_the_engine_may_be_too_long_as_well(serve: StartSocket) -> None:
    got: list[int] = []

    async def script(connection: Connection) -> None:
        socket = await EngineSocket.accept(connection)
        await socket.send(b"first")
        await socket.send(b"x" * (1 << 20))
        while frame := await socket.frame():
            if frame.opcode is Opcode.CLOSE:
                got.append(int.from_bytes(frame.data[:2], "big"))

    world = await serve(script, GatewaySettings(max_frame=1000))
    client = await dial(world, compression=None)

    assert await client.recv() == b"first"
    code, reason = await ending(client)
    assert (code, reason and reason[:27]) == (1009, "a frame of the engine is lo")
    await world.until(lambda: got == [1009] and idle(world))


async def test_many_sockets_at_once(serve: StartSocket) -> None:
    world = await serve(echo)

    async def talk(number: int) -> None:
        client = await dial(world, compression=None, open_timeout=30)
        for turn in range(3):
            data = f"{number}/{turn}".encode() * 1000
            await client.send(data)
            assert await client.recv() == data
        await client.close()

    await asyncio.gather(*map(talk, range(200)))

    await world.until(lambda: idle(world))
    endings = {told["ending"] for told in world.activities.tail(500)}
    assert endings == {"complete"}
    assert len(world.activities.tail(500)) == 200


# --- the end ----------------------------------------------------------------------------------------------


# H45
@pytest.mark.parametrize(("code", "reason"), [(4001, "x"), (1000, ""), (1011, "ä" * 60)])
async def test_the_engines_close_comes_to_the_client(serve: StartSocket, code: int, reason: str) -> None:
    async def script(connection: Connection) -> None:
        socket = await EngineSocket.accept(connection)
        await socket.close(code, reason)
        while await socket.frame():
            pass

    world = await serve(script)

    assert await ending(await dial(world)) == (code, reason)
    await world.until(lambda: idle(world))


@pytest.mark.parametrize(("code", "reason"), [(4001, "x"), (1000, "")])
async def test_the_clients_close_comes_to_the_engine(
    serve: StartSocket, code: int, reason: str
) -> None:  # H45
    got: list[tuple[int, str]] = []

    async def script(connection: Connection) -> None:
        socket = await EngineSocket.accept(connection)
        while frame := await socket.frame():
            got.append((int.from_bytes(frame.data[:2], "big"), bytes(frame.data[2:]).decode()))

    world = await serve(script)
    await (await dial(world)).close(code, reason)

    assert got == [(code, reason)]
    await world.until(lambda: idle(world))


@pytest.mark.parametrize("abrupt", [True, False])
async def test_a_client_that_leaves_without_a_word(serve: StartSocket, abrupt: bool) -> None:  # H45
    async def script(connection: Connection) -> None:
        socket = await EngineSocket.accept(connection)
        await socket.send(b"x")
        await connection.gone()

    world = await serve(script)
    client = await world.client()
    await client.send(message("GET", REALTIME, offer()))
    assert (await client.head()).status == 101

    client.abort() if abrupt else client.writer.close()

    await world.until(lambda: world.driver.hung_up == 1 and idle(world))
    assert world.activities.tail(1)[0]["ending"] == "client_left"


@pytest.mark.parametrize("abrupt", [True, False])
async def test_an_engine_that_leaves_without_a_word(serve: StartSocket, abrupt: bool) -> None:  # H45
    async def script(connection: Connection) -> None:
        await EngineSocket.accept(connection)
        await asyncio.sleep(0.01)
        connection.reset() if abrupt else connection.writer.close()

    world = await serve(script)

    assert await ending(await dial(world)) == (1011, "test-engine broke off: it ended the connection")
    await world.until(lambda: idle(world))
    assert world.activities.tail(1)[0]["ending"] == "engine_broke_off"


async def test_an_engine_that_dies_tells_how(serve: StartSocket) -> None:
    async def script(connection: Connection) -> None:
        socket = await EngineSocket.accept(connection)
        await socket.frame()
        connection.die(ExitStatus(signal=11))

    world = await serve(script)
    client = await dial(world)
    await client.send("x")

    code, reason = await ending(client)
    assert code == 1011
    assert reason is not None
    assert "killed by signal 11 (SIGSEGV)" in reason


async def test_in_the_middle_of_a_frame_no_close_frame_fits(serve: StartSocket) -> None:
    async def script(connection: Connection) -> None:
        await EngineSocket.accept(connection)
        await connection.send(bytes((0x82, 100)) + b"half of it")
        await asyncio.sleep(0.01)
        connection.reset()

    world = await serve(script)

    assert await ending(await dial(world)) == (None, None)
    await world.until(lambda: idle(world))


@pytest.mark.parametrize("by", ["unload", "end"])
async def test_a_model_that_is_unloaded_asks_to_come_again(serve: StartSocket, by: str) -> None:
    world = await serve(echo)
    client = await dial(world)
    await client.send("x")
    assert await client.recv() == "x"

    await (world.pool.unload("user.m") if by == "unload" else world.pool.aclose())

    code, reason = await ending(client)
    expected = "user.m was unloaded" if by == "unload" else "the server is shutting down"
    assert (code, reason) == (1012, expected)
    assert world.activities.tail(1)[0]["ending"] == "stopped"


async def test_who_leaves_while_the_model_loads_ends_the_load(serve: StartSocket) -> None:
    world = await serve(echo)
    world.driver.ready.clear()
    client = await world.client()
    await client.send(message("GET", REALTIME, offer()))
    await world.until(lambda: bool(world.driver.engines and world.driver.engines[0].started))

    client.abort()

    await world.until(lambda: world.driver.engines[0].stopped)
