"""WebSockets that are silent for an hour, sides that do not read, and OpenAI's own client."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from openai import AsyncOpenAI
from websockets.frames import Opcode

from lemonpod.gateway.data.clock import Clock
from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection
from tests.fakes.socket import EngineSocket, echo
from tests.unit.gateway.sockets import REALTIME, StartSocket, dial, ending, idle, offer
from tests.unit.gateway.wire import Client, message

HOUR = 3600.0
PIECE = b"\x82\x7f" + (1 << 20).to_bytes(8, "big") + bytes(1 << 20)
"""A frame of an engine with a mebibyte in it."""
MASKED = b"\x82\xff" + (1 << 20).to_bytes(8, "big") + bytes(4) + bytes(1 << 20)
IN_KERNELS = 48 << 20
"""More than the buffers of four sockets take on any machine, and of a reader in a test."""


class Simulated(Clock):
    """A clock that can be put forward."""

    ahead = 0.0

    def __init__(self, step: float) -> None:
        super().__init__(step)
        loop = asyncio.get_running_loop()
        self.exact = lambda: loop.time() + Simulated.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Simulated]:
    monkeypatch.setattr(Simulated, "ahead", 0.0)
    monkeypatch.setattr("lemonpod.gateway.data.edge.Clock", Simulated)
    return Simulated


# --- silence ----------------------------------------------------------------------------------------------


async def test_an_hour_of_silence(serve: StartSocket, clock: type[Simulated]) -> None:
    world = await serve(echo, GatewaySettings(heartbeat=0.05))
    client = await dial(world)
    viewer = await dial(world, "/logs/stream")
    await viewer.send('{"type":"logs.subscribe"}')
    await viewer.recv()
    waits = await world.client()  # a usual connection, which has a limit

    clock.ahead = HOUR
    assert await waits.reader.read() == b""  # so the time has come to all of them
    for _ in range(3):
        clock.ahead += HOUR
        await asyncio.sleep(0.1)

    await client.send("still there")
    assert await client.recv() == "still there"
    world.journal.extend("Info", "x", [b"still here"])
    assert "still here" in str(await viewer.recv())


async def test_an_hour_of_silence_while_the_model_loads(serve: StartSocket, clock: type[Simulated]) -> None:
    world = await serve(echo, GatewaySettings(heartbeat=0.05))
    world.driver.ready.clear()
    dialing = asyncio.create_task(dial(world))
    await world.until(lambda: bool(world.driver.engines and world.driver.engines[0].started))
    waits = await world.client()
    clock.ahead = HOUR
    assert await waits.reader.read() == b""

    world.driver.ready.set()

    await (await dialing).close()


# --- sides that do not read -------------------------------------------------------------------------------


async def opened(world_client: Client) -> None:
    await world_client.send(message("GET", REALTIME, offer()))
    assert (await world_client.head()).status == 101


async def pour(writer: asyncio.StreamWriter, piece: bytes) -> int:
    """Write until it is taken no more; returns how much was."""
    taken = 0
    try:
        while taken < 4 * IN_KERNELS:
            writer.write(piece)
            async with asyncio.timeout(0.5):
                await writer.drain()
            taken += len(piece)
    except TimeoutError:
        pass
    return taken


async def test_an_engine_that_does_not_read_holds_up_its_client(serve: StartSocket) -> None:
    read = asyncio.Event()
    got = 0

    async def script(connection: Connection) -> None:
        nonlocal got
        await EngineSocket.accept(connection)
        await read.wait()
        while data := await connection.reader.read(1 << 20):
            got += len(data)

    world = await serve(script)
    client = await world.client()
    await opened(client)

    taken = await pour(client.writer, MASKED)
    assert taken < IN_KERNELS
    assert (await world.get("/live")).status == 200

    read.set()
    await client.writer.drain()
    client.writer.write_eof()
    await world.until(lambda: idle(world))
    await world.until(lambda: got == taken + len(MASKED))


async def test_a_client_that_does_not_read_holds_up_its_engine(serve: StartSocket) -> None:
    taken: list[int] = []

    async def script(connection: Connection) -> None:
        await EngineSocket.accept(connection)
        taken.append(await pour(connection.writer, PIECE))
        await connection.writer.drain()
        connection.writer.write_eof()
        await connection.gone()

    world = await serve(script)
    client = await world.client()
    await opened(client)

    await world.until(lambda: bool(taken))
    assert taken[0] < IN_KERNELS
    got = len(await client.reader.readexactly(taken[0] + len(PIECE)))
    assert got == taken[0] + len(PIECE)
    assert (await client.reader.readexactly(4))[:1] == b"\x88"  # the engine left without a word


async def test_an_engine_that_never_reads_again_is_given_up(serve: StartSocket) -> None:
    async def script(connection: Connection) -> None:
        await EngineSocket.accept(connection)
        await asyncio.sleep(60)

    world = await serve(script, GatewaySettings(write_timeout=0.3))
    client = await dial(world, compression=None)
    sending = asyncio.create_task(client.send(bytes(IN_KERNELS)))

    code, reason = await ending(client)

    assert (code, reason) == (1011, "test-engine broke off: it has read nothing for 0.3 s")
    await asyncio.gather(sending, return_exceptions=True)
    await world.until(lambda: idle(world))


async def test_a_client_that_never_reads_again_is_dropped(serve: StartSocket) -> None:
    async def script(connection: Connection) -> None:
        await EngineSocket.accept(connection)
        try:
            while True:
                await connection.send(PIECE)
        finally:
            connection.die_quietly()

    world = await serve(script, GatewaySettings(write_timeout=0.3))
    client = await world.client()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(message("GET", REALTIME, offer()))

    await world.until(lambda: world.driver.hung_up == 1 and idle(world))
    assert world.activities.tail(1)[0]["ending"] == "client_stalled"


@pytest.mark.parametrize("more", [0, 1])
async def test_the_longest_frame_is_of_64_mebibytes(serve: StartSocket, more: int) -> None:
    got = 0

    async def script(connection: Connection) -> None:
        nonlocal got
        await EngineSocket.accept(connection)
        while data := await connection.reader.read(1 << 20):
            got += len(data)

    world = await serve(script)
    client = await world.client()
    await opened(client)
    frame = b"\x82\xff" + ((64 << 20) + more).to_bytes(8, "big") + bytes(4) + bytes((64 << 20) + more)
    sending = asyncio.create_task(client.send(frame))

    if more:
        head = await client.reader.readexactly(4)
        assert (head[0], int.from_bytes(head[2:], "big")) == (0x88, 1009)
    else:
        await world.until(lambda: got == len(frame))
    client.abort()
    await asyncio.gather(sending, return_exceptions=True)
    await world.until(lambda: idle(world))


# --- OpenAI's client --------------------------------------------------------------------------------------


async def transcribe(connection: Connection) -> None:
    """A stand-in for a server that streams transcriptions, in OpenAI's messages."""
    socket = await EngineSocket.accept(connection)
    heard = b""

    async def say(kind: str, **more: object) -> None:
        await socket.send(json.dumps({"type": kind, "event_id": "e", **more}).encode(), text=True)

    await say("session.created", session={"type": "transcription", "id": "s"})
    while frame := await socket.frame():
        if frame.opcode is not Opcode.TEXT:
            continue
        asked = json.loads(bytes(frame.data))
        match asked["type"]:
            case "session.update":
                await say("session.updated", session=asked["session"])
            case "input_audio_buffer.append":
                heard += base64.b64decode(asked["audio"])
            case "input_audio_buffer.commit":
                item = {"item_id": "i", "content_index": 0}
                kind = "conversation.item.input_audio_transcription"
                await say(f"{kind}.delta", delta=f"{len(heard)} ", **item)
                await say(f"{kind}.completed", transcript=f"{len(heard)} bytes", **item)


async def test_openais_client_works_unchanged(serve: StartSocket) -> None:
    world = await serve(transcribe, GatewaySettings(api_key="sk"))
    address = f"127.0.0.1:{world.port}/v1"
    async with AsyncOpenAI(
        base_url=f"http://{address}", websocket_base_url=f"ws://{address}", api_key="sk"
    ) as openai, openai.realtime.connect(model="m") as connection:  # fmt: skip
        assert (await connection.recv()).type == "session.created"
        await connection.session.update(
            session={"type": "transcription", "audio": {"input": {"transcription": {"model": "m"}}}}
        )
        assert (await connection.recv()).type == "session.updated"
        for _ in range(3):
            audio = base64.b64encode(bytes(1 << 20)).decode()
            await connection.input_audio_buffer.append(audio=audio)
        await connection.input_audio_buffer.commit()
        said = [await connection.recv(), await connection.recv()]

    delta, completed = said
    assert delta.type == "conversation.item.input_audio_transcription.delta"
    assert completed.type == "conversation.item.input_audio_transcription.completed"
    assert completed.transcript == f"{3 << 20} bytes"
    await world.until(lambda: idle(world))
    assert world.activities.tail(1)[0]["ending"] == "complete"
