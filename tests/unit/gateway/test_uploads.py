"""Multipart bodies go through as they are."""

from __future__ import annotations

import asyncio
import gzip
import os

import pytest

from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import message, ok
from tests.unit.gateway.world import Starter

PATH = "/v1/audio/transcriptions"
TYPE = 'multipart/form-data; boundary="a b-X"'


def body(*, model: bytes | None = b"m", file: bytes = b"RIFF\r\n--a b-\xff\x00") -> bytes:
    parts = [b'Content-Disposition: form-data; name="file"; filename="\xc3\xa9 \\"q\\".wav"\r\n\r\n' + file]
    if model is not None:
        parts.append(b'Content-Disposition: form-data; name="model"\r\n\r\n' + model)
    parts.append(b'content-disposition: form-data; name="response_format"\r\n\r\nsrt')
    return b"".join(b"--a b-X\r\n" + part + b"\r\n" for part in parts) + b"--a b-X--\r\n"


async def answer(connection: Connection) -> None:
    await connection.request()
    await connection.send(ok(b"1\n00:00 --> 00:01\nHi\n", "text/plain"))


@pytest.mark.parametrize("size", [0, 1000, 3 << 20])
async def test_every_byte_arrives_in_order(start: Starter, size: int) -> None:  # H25
    world = await start(answer, capabilities=["transcription"])
    data = body(file=os.urandom(size))

    reply = await world.post(PATH, data, {"Content-Type": TYPE})

    assert reply.body == b"1\n00:00 --> 00:01\nHi\n"
    assert reply.values("Content-Type") == ["text/plain"]
    received = world.driver.received[0]
    assert received.body == data
    assert received.values("Content-Type") == [TYPE]
    assert received.values("Content-Length") == [str(len(data))]
    assert not received.values("Transfer-Encoding")


async def test_a_long_upload_leaves_its_connection_usable(start: Starter) -> None:
    world = await start(answer, capabilities=["transcription"])
    client = await world.client()

    for _ in range(3):
        data = body(file=os.urandom(5 << 20))
        await client.send(message("POST", PATH, {"Content-Type": TYPE}, data))
        assert (await client.reply()).status == 200
    assert world.driver.received[-1].body == data


async def test_a_slow_upload_is_waited_for(start: Starter) -> None:
    world = await start(answer, capabilities=["transcription"], settings=GatewaySettings(body_timeout=0.2))
    data = body()
    client = await world.client()
    await client.send(message("POST", PATH, {"Content-Type": TYPE, "Content-Length": str(len(data))}))
    for at in range(0, len(data), 20):
        await client.send(data[at : at + 20])
        await asyncio.sleep(0.01)

    assert (await client.reply()).status == 200
    assert world.driver.received[0].body == data


async def test_a_stopped_upload_is_not(start: Starter) -> None:
    world = await start(answer, capabilities=["transcription"], settings=GatewaySettings(body_timeout=0.05))
    data = body()

    reply = await world.raw(
        message("POST", PATH, {"Content-Type": TYPE, "Content-Length": str(len(data))}, data[:-5])
    )

    assert reply.status == 408
    assert not world.driver.engines


async def test_a_compressed_upload_arrives_inflated(start: Starter) -> None:  # H23
    world = await start(answer, capabilities=["transcription"])

    packed = gzip.compress(body())
    await world.post(PATH, packed, {"Content-Type": TYPE, "Content-Encoding": "gzip"})

    assert world.driver.received[0].body == body()


async def test_an_upload_over_the_limit_is_refused(start: Starter) -> None:
    world = await start(answer, capabilities=["transcription"], settings=GatewaySettings(max_upload=1000))

    reply = await world.post(PATH, body(file=b"x" * 1000), {"Content-Type": TYPE})

    assert reply.status == 413
    assert "max_upload" in reply.error["message"]


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("application/json", b'{"model":"m"}'),
        ("multipart/form-data", body()),
        (TYPE, body()[:-8]),
        (TYPE, b""),
        (TYPE, body(model=b"\xff")),
        (TYPE, body() + body()),
    ],
)
async def test_what_is_no_upload_is_refused(start: Starter, content_type: str, data: bytes) -> None:
    world = await start(answer, capabilities=["transcription"])

    reply = await world.post(PATH, data, {"Content-Type": content_type, "Content-Length": str(len(data))})

    if data == body() + body():  # the second is an epilogue
        assert reply.status == 200
    else:
        assert reply.status == 400
        assert not world.driver.received


async def test_an_upload_without_a_model_goes_to_the_loaded_one(start: Starter) -> None:
    world = await start(answer, capabilities=["image"])
    path = "/v1/images/edits"
    assert (await world.post(path, body(model=None), {"Content-Type": TYPE})).error == (
        "No model loaded and no model specified in request"
    )
    await world.post(path, body(), {"Content-Type": TYPE})

    assert (await world.post(path, body(model=None), {"Content-Type": TYPE})).status == 200
    assert world.driver.received[1].body == body(model=None)


async def test_a_transcription_needs_a_model_and_a_file(start: Starter) -> None:
    world = await start(answer, capabilities=["transcription"])
    without_file = body().replace(b'name="file"', b'name="elif"')

    for data, missing in ((body(model=None), "model"), (without_file, "file")):
        reply = await world.post(PATH, data, {"Content-Type": TYPE})
        assert (reply.status, reply.error) == (400, f"'{missing}' parameter is required")
    assert not world.driver.received


async def test_an_upload_for_an_unknown_model_is_a_404(start: Starter) -> None:
    world = await start(answer, capabilities=["transcription"])

    assert (await world.post(PATH, body(model=b"nope"), {"Content-Type": TYPE})).status == 404


@pytest.mark.parametrize("path", ["/v1/images/edits", "/v1/images/variations"])
async def test_one_remap_of_image_holds_for_all_three(start: Starter, path: str) -> None:
    world = await start(answer, capabilities=["image"], endpoints={"image": "/sdapi/img"})

    await world.post(path, body(), {"Content-Type": TYPE})
    await world.post("/v1/images/generations", {"model": "m"})

    assert [received.target for received in world.driver.received] == ["/sdapi/img"] * 2


async def test_an_engine_that_refuses_early_is_heard(start: Starter) -> None:
    async def refuses(connection: Connection) -> None:
        await connection.head()
        await connection.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
        await connection.gone()

    world = await start(refuses, capabilities=["transcription"])

    reply = await world.post(PATH, body(file=b"x" * (8 << 20)), {"Content-Type": TYPE})

    assert (reply.status, reply.error["message"]) == (413, "big")
