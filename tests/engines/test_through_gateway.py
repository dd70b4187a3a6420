"""The whole way: a client, the gateway, the pool, and an engine that is a real process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from lemonpod.drivers.process import ProcessDriver
from lemonpod.engine.settings import EngineSettings
from tests.fake_engine import ROOT
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import message
from tests.unit.gateway.world import Starter, World
from tests.waiting import alive, carriers, until

CHAT = "/v1/chat/completions"
CAPABILITIES = ["chat_completion", "completion", "embeddings", "transcription", "tts", "slots", "tokenize"]


async def unused(connection: Connection) -> None:
    """The script of an engine that these tests have none of."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    driver = ProcessDriver(tmp_path / "state", dict(os.environ), EngineSettings())
    block = {
        "command": sys.executable,
        "args": ["-S", "-E", "-m", "tests.fake_engine", "--port", "{port}", "--model", "{model_name}"],
        "working_dir": str(ROOT),
    }
    async with Starter(tmp_path) as start:
        yield await start(
            unused,
            capabilities=CAPABILITIES,
            drivers=[driver],
            platforms={"linux": {"cpu": block}},
            health_probe={"poll_interval_ms": 10},
            model_management="self_managed",
        )
    assert carriers(driver.run) == []
    await driver.aclose()


def chat(**fake: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [], "stream": "tokens" in fake, "fake": fake}


async def engine_pid(world: World) -> int:
    pid = (await world.get("/v1/health")).json["all_models_loaded"][0]["pid"]
    assert isinstance(pid, int)
    return pid


async def counted(world: World) -> dict[str, int]:
    """What the engine itself has counted."""
    status = world.pool.status("user.m")
    assert status is not None
    assert status.plan is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", status.plan.endpoint.port)
    writer.write(b"GET /__stats HTTP/1.1\r\nConnection: close\r\n\r\n")
    body = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()
    counts: dict[str, int] = json.loads(body)
    return counts


async def until_counted(world: World, what: str, count: int, *, within: float) -> None:
    async with asyncio.timeout(within):
        while (await counted(world))[what] != count:  # noqa: ASYNC110  it is another process that counts
            await asyncio.sleep(0.005)


async def test_a_chat_loads_answers_and_unload_ends_the_process(world: World) -> None:
    reply = await world.post(CHAT, chat())
    assert (reply.status, reply.json["model"]) == (200, "m")
    pid = await engine_pid(world)

    assert (await world.post("/v1/unload", {})).status == 200

    assert not alive(pid)
    assert (await world.get("/v1/health")).json["all_models_loaded"] == []


async def test_a_process_that_crashes_on_a_request_tells_how(world: World) -> None:
    reply = await world.post(CHAT, chat(crash_on_request=True))

    assert (reply.status, reply.error["type"]) == (502, "network_error")
    assert "exited with code 3" in reply.error["message"]
    assert (await world.post(CHAT, chat())).status == 503


async def test_a_process_that_is_killed_in_its_stream(world: World) -> None:
    await world.post(CHAT, chat())
    client = await world.client()
    await client.send(message("POST", CHAT, {}, json.dumps(chat(tokens=2, silent_stream=True))))
    await client.head()
    await client.chunk()

    os.kill(await engine_pid(world), signal.SIGKILL)

    event = await client.chunk()
    assert b"killed by signal 9 (SIGKILL)" in event
    assert await client.reader.read() == b""  # no last chunk: the answer is not whole


async def test_the_engine_hears_of_a_client_that_leaves(world: World) -> None:
    await world.post(CHAT, chat())
    client = await world.client()
    await client.send(message("POST", CHAT, {}, json.dumps(chat(first_delay=600))))
    await until_counted(world, "active", 1, within=5)

    client.abort()

    await until_counted(world, "aborted", 1, within=2)


@pytest.mark.parametrize(
    ("habit", "complete"),
    [({"short_body": True}, False), ({"drop_mid_stream": True, "tokens": 5}, False), ({"tokens": 3}, True)],
)
async def test_a_broken_answer_looks_broken(world: World, habit: dict[str, Any], complete: bool) -> None:
    reply = await world.post(CHAT, chat(**habit))

    assert (reply.complete and reply.status == 200) is complete


async def test_openais_client_works_unchanged(world: World) -> None:
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{world.port}/api/v1", api_key="none") as client:
        answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        assert answer.choices[0].message.content
        assert answer.model == "m"
        stream = await client.chat.completions.create(
            model="user.m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        pieces = [event.choices[0].delta.content or "" async for event in stream if event.choices]
        assert "".join(pieces)
        assert (await client.completions.create(model="m", prompt="x")).choices[0].text
        assert (await client.embeddings.create(model="m", input="x")).data[0].embedding
        assert [model.id async for model in client.models.list()] == ["user.m"]
        assert (await client.models.retrieve("m")).id == "user.m"
        transcript = await client.audio.transcriptions.create(model="m", file=("a.wav", b"RIFF"))
        assert transcript.text
        with pytest.raises(openai.NotFoundError) as missing:
            await client.chat.completions.create(model="nope", messages=[])
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError):
            await client.images.generate(model="m", prompt="x")


async def test_openais_client_sees_a_stream_that_breaks(world: World) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{world.port}/v1", api_key="none", max_retries=0
    ) as client:
        stream = await client.chat.completions.create(
            model="m", messages=[], stream=True, extra_body={"fake": {"drop_mid_stream": True}}
        )
        with pytest.raises(openai.APIError, match="broke off"):
            _ = [event async for event in stream]


async def test_an_unload_in_a_stream_tells_the_client(world: World) -> None:
    await world.post(CHAT, chat())
    client = await world.client()
    await client.send(message("POST", CHAT, {}, json.dumps(chat(tokens=2, silent_stream=True))))
    await client.head()
    await client.chunk()
    pid = await engine_pid(world)

    assert (await world.post("/v1/unload", {"model_name": "m"})).status == 200

    assert b"engine_stopped" in await client.chunk()
    await until(lambda: not alive(pid))
