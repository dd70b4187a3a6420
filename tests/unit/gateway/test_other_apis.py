"""Requests of Ollama's and Anthropic's clients pass the same gates, and have the same ends, as OpenAI's."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from tests.fakes.driver import Connection
from tests.fakes.engine import FakeDriver
from tests.unit.gateway.wire import chunked, ok
from tests.unit.gateway.world import Starter, World

OLLAMA = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
ANTHROPIC = OLLAMA | {"max_tokens": 5}
WORD = b'data: {"choices": [{"delta": {"content": "hi"}}]}\n\n'
DONE = b"data: [DONE]\n\n"


async def answer(connection: Connection) -> None:
    await connection.request()
    document = {
        "choices": [{"message": {"content": "hi"}, "text": "hi", "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
        "data": [{"index": 0, "embedding": [1.0]}],
    }
    await connection.send(ok(json.dumps(document).encode()))


def streaming(*pieces: bytes, end: bool = True) -> Any:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(chunked("text/event-stream", *pieces, end=end))
        await connection.gone()

    return script


def sent(world: World) -> Any:
    return json.loads(world.driver.received[-1].body)


async def test_the_engine_is_asked_in_openais_words(start: Starter) -> None:
    world = await start(answer)

    reply = await world.post(
        "/v1/messages?beta=true",
        ANTHROPIC,
        {"X-Api-Key": "k", "Anthropic-Version": "2023-06-01", "Accept-Encoding": "gzip", "X-Request-Id": "7"},
    )

    [received] = world.driver.received
    assert reply.json["content"] == [{"type": "text", "text": "hi"}]
    assert reply.json["model"] == "m"
    assert received.target == "/v1/chat/completions"
    assert sent(world)["model"] == "user.m"
    assert received.value("X-Api-Key") is None
    assert received.values("Accept-Encoding") == ["identity"]
    assert received.values("Content-Type") == ["application/json"]
    assert received.value("X-Request-Id") == "7"


async def test_a_stream_is_told_as_it_comes(start: Starter) -> None:
    world = await start(streaming(WORD[:20], WORD[20:], end=False))
    client = await world.client()
    body = json.dumps(OLLAMA)
    await client.send(
        f"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )

    head = await client.head()

    assert head.value("Content-Type") == "application/x-ndjson"
    assert json.loads(await client.chunk())["message"]["content"] == "hi"
    assert sent(world)["stream"] is True
    client.abort()
    await world.until(lambda: world.driver.hung_up == 1)
    [record] = world.activities.tail(5)
    assert (record["path"], record["ending"], record["model"]) == ("/api/chat", "client_left", "m")


async def test_a_streams_end_tells_what_it_used(start: Starter) -> None:
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}\r\n\r\n'
    world = await start(streaming(WORD, usage + DONE))

    reply = await world.post("/api/generate", {"model": "m", "prompt": "hello"})

    word, last = [json.loads(line) for line in reply.body.splitlines()]
    assert word["response"] == "hi"
    assert (last["done"], last["prompt_eval_count"], last["eval_count"]) == (True, 3, 1)
    [record] = world.activities.tail(5)
    assert (record["output_tokens"], record["ending"]) == (1, "complete")


async def test_what_came_before_an_error_is_told(start: Starter) -> None:
    world = await start(streaming(WORD + b'data: {"error": {"message": "boom"}}\n\n'))

    reply = await world.post("/api/chat", OLLAMA)

    word, mistake = [json.loads(line) for line in reply.body.splitlines()]
    assert word["message"]["content"] == "hi"
    assert mistake == {"error": "boom"}


async def test_an_event_of_nothing_is_none(start: Starter) -> None:
    world = await start(streaming(b"data:\n\n", WORD, b"data: \n\n" + DONE))

    reply = await world.post("/api/chat", OLLAMA)

    assert [json.loads(line)["done"] for line in reply.body.splitlines()] == [False, True]


@pytest.mark.parametrize(
    ("capabilities", "target"),
    [(["chat_completion", "completion"], "/v1/chat/completions"), (["completion"], "/v1/completions")],
)
async def test_a_prompt_is_asked_as_the_engine_can(
    start: Starter, capabilities: list[str], target: str
) -> None:
    world = await start(answer, capabilities=capabilities)

    reply = await world.post("/api/generate", {"model": "m", "prompt": "hello", "stream": False})

    assert reply.json["response"] == "hi"
    assert world.driver.received[-1].target == target


async def test_load_and_unload(start: Starter) -> None:
    world = await start(answer)

    loaded = await world.post("/api/generate", {"model": "m"})
    listed = await world.get("/api/ps")
    unloaded = await world.post("/api/chat", {"model": "m", "keep_alive": 0})

    assert loaded.json["done_reason"] == "load"
    assert [model["model"] for model in listed.json["models"]] == ["user.m:latest"]
    assert unloaded.json["done_reason"] == "unload"
    assert (await world.get("/api/ps")).json == {"models": []}
    assert not world.driver.received


async def test_unloaded_behind_the_answer_but_not_under_another(start: Starter) -> None:
    world = await start(answer)
    request = OLLAMA | {"stream": False, "keep_alive": 0}

    async with world.pool.lease("user.m"):
        await world.post("/api/chat", request)
        assert (await world.get("/api/ps")).json["models"]  # by now it would be gone
        assert not world.driver.engines[0].stopped
    await world.post("/api/chat", request)

    await world.until(lambda: world.driver.engines[0].stopped)


@pytest.mark.parametrize("messages", [[], OLLAMA["messages"]])
async def test_a_pinned_model_is_not_unloaded(start: Starter, messages: Any) -> None:
    world = await start(answer)
    await world.post("/v1/load", {"model_name": "m", "pinned": True})
    request = {"model": "m", "messages": messages, "stream": False, "keep_alive": 0}

    reply = await world.post("/api/chat", request)
    again = await world.post("/api/chat", request)

    assert (reply.status, again.status) == (200, 200)
    assert reply.json["done_reason"] == ("stop" if messages else "unload")
    assert [model["model"] for model in (await world.get("/api/ps")).json["models"]] == ["user.m:latest"]
    assert len(world.driver.engines) == 1
    assert not world.driver.engines[0].stopped


async def test_a_model_that_others_wait_for_is_not_unloaded(start: Starter) -> None:
    driver = FakeDriver()
    driver.habits.answers = False
    world = await start(answer, drivers=[driver])
    loading = asyncio.create_task(world.post("/v1/load", {"model_name": "m"}))
    await world.until(lambda: bool(driver.running))

    assert (await world.post("/api/generate", {"model": "m", "keep_alive": 0})).status == 200
    driver.habits.answers = True

    assert (await loading).status == 200


async def test_a_compressed_body(start: Starter) -> None:  # H23
    world = await start(answer)
    body = gzip.compress(json.dumps(ANTHROPIC).encode())

    reply = await world.request("POST", "/v1/messages", {"Content-Encoding": "gzip"}, body)

    assert reply.status == 200


async def test_a_long_body(start: Starter) -> None:
    world = await start(answer)
    talk = [{"role": "user", "content": "x" * (2 << 20)}]

    reply = await world.post("/v1/messages", ANTHROPIC | {"messages": talk})

    assert reply.status == 200
    assert len(sent(world)["messages"][0]["content"]) == 2 << 20


async def test_a_long_answer(start: Starter) -> None:
    async def many(connection: Connection) -> None:
        await connection.request()
        data = [{"index": index, "embedding": [0.5] * 1000} for index in range(500)]
        await connection.send(ok(json.dumps({"data": data}).encode()))

    world = await start(many, capabilities=["embeddings"])

    reply = await world.post("/api/embed", {"model": "m", "input": ["x"] * 500})

    assert len(reply.json["embeddings"]) == 500
