"""Requests of Ollama's and Anthropic's clients pass the same gates, and have the same ends, as OpenAI's."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection
from tests.fakes.engine import FakeDriver
from tests.unit.gateway.test_gates import MODEL
from tests.unit.gateway.wire import as_chunk, chunked, message, ok
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


async def test_a_compressed_body(start: Starter) -> None:
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


# --- what goes wrong --------------------------------------------------------------------------------------


def anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize(
    ("change", "status", "told"),
    [
        (b"", 400, "Request body is required but was empty"),
        (b"{", 400, "Invalid JSON in request body"),
        (b'{"model": "m", "model": "n"}', 400, "Invalid JSON in request body"),
        (b'{"model": "m", "messages": ' + b"[" * 5000 + b"]" * 5000 + b"}", 400, "nested too deeply"),
        ({"model": "nobody"}, 404, "Model 'nobody' was not found"),
        ({"model": "words"}, 400, "This model does not support chat completion"),
        ({"messages": [{"role": "user", "content": 5}]}, 400, "content' must be"),
    ],
)
async def test_mistakes_in_each_apis_shape(
    start: Starter, change: bytes | dict[str, Any], status: int, told: str
) -> None:
    world = await start(
        answer,
        capabilities=["chat_completion", "embeddings"],
        models={"words": MODEL | {"labels": ["embeddings"]}},
    )
    ollama = await world.post("/api/chat", change if isinstance(change, bytes) else OLLAMA | change)
    messages = await world.post("/v1/messages", change if isinstance(change, bytes) else ANTHROPIC | change)

    assert ollama.status == messages.status == status
    assert told in ollama.json["error"]
    assert messages.json["type"] == "error"
    assert told in messages.json["error"]["message"]
    assert not world.driver.received


async def test_an_undeclared_capability(start: Starter) -> None:
    world = await start(answer, capabilities=["completion"])

    assert (await world.post("/api/embed", {"model": "m", "input": "x"})).json == {
        "error": "Embeddings not supported by cpu"
    }
    reply = await world.post("/v1/messages", ANTHROPIC)
    assert reply.json == anthropic("invalid_request_error", "Chat completion not supported by cpu")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"X-Api-Key": "wrong"}, 401),
        ({"X-Api-Key": "secret"}, 200),
        ({"Authorization": "Bearer secret"}, 200),
        ({"Authorization": "Bearer wrong", "X-Api-Key": "secret"}, 401),
    ],
)
async def test_keys(start: Starter, headers: dict[str, str], status: int) -> None:
    world = await start(answer, settings=GatewaySettings(api_key="secret"))

    reply = await world.post("/v1/messages", ANTHROPIC, headers)

    assert reply.status == status
    if status == 401:
        assert reply.json == anthropic("authentication_error", "Invalid or missing API key")
    assert (await world.get("/api/tags")).status == 401


async def test_pages_that_may_not_call(start: Starter) -> None:
    world = await start(answer)

    reply = await world.post("/api/chat", OLLAMA, {"Origin": "https://elsewhere.example"})

    assert (reply.status, reply.json) == (403, {"error": "Origin not allowed"})


async def test_an_engines_refusal(start: Starter) -> None:
    async def refuse(connection: Connection) -> None:
        await connection.request()
        error = {"error": {"message": "too long for /secret/place", "type": "exceed_context_size_error"}}
        body = json.dumps(error).encode()
        await connection.send(
            ok(body, "application/json", "Retry-After: 7").replace(b"200 OK", b"429 Too Many", 1)
        )

    world = await start(refuse)

    reply = await world.post("/v1/messages", ANTHROPIC)

    assert reply.status == 429
    assert reply.value("Retry-After") == "7"
    assert reply.json["error"]["type"] == "rate_limit_error"
    assert "too long" in reply.json["error"]["message"]
    assert (await world.post("/api/chat", OLLAMA)).json["error"].startswith("too long")


async def test_an_error_in_the_stream(start: Starter) -> None:
    trouble = b'data: {"error": {"message": "out of memory"}}\n\n'
    world = await start(streaming(WORD, trouble))

    ollama = await world.post("/api/chat", OLLAMA)
    messages = await world.post("/v1/messages", ANTHROPIC | {"stream": True})

    assert json.loads(ollama.body.splitlines()[-1]) == {"error": "out of memory"}
    assert messages.body.endswith(
        b"event: error\ndata: %b\n\n" % json.dumps(anthropic("api_error", "out of memory")).encode()
    )
    assert [record["ending"] for record in world.activities.tail(5)] == ["error", "error"]


async def test_an_engine_that_breaks_off(start: Starter) -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(chunked("text/event-stream", WORD, end=False))
        connection.reset()

    world = await start(script)

    reply = await world.post("/api/chat", OLLAMA)

    word, last = [json.loads(line) for line in reply.body.splitlines()]
    assert word["message"]["content"] == "hi"
    assert "broke off" in last["error"]
    assert [record["ending"] for record in world.activities.tail(5)] == ["engine_broke_off"]


@pytest.mark.parametrize("path", ["/api/chat", "/v1/messages", "/v1/chat/completions"])
@pytest.mark.parametrize("fault", ["late", "broken"])
async def test_what_is_wrong_with_a_body_in_each_apis_shape(start: Starter, path: str, fault: str) -> None:
    world = await start(answer, settings=GatewaySettings(body_timeout=0.05))
    chunk = b"z\r\n" if fault == "broken" else b"1\r\n{\r\n"
    client = await world.client()
    await client.send(message("POST", path, {"Transfer-Encoding": "chunked", "Expect": "100-continue"}))
    assert (await client.head()).status == 100

    await client.send(chunk)
    reply = await client.reply()

    assert reply.status == (400 if fault == "broken" else 408)
    if path == "/api/chat":
        assert isinstance(reply.json["error"], str)
    elif path == "/v1/messages":
        assert reply.json == anthropic("invalid_request_error", reply.error["message"])
    else:
        assert reply.json.keys() == {"error"}


@pytest.mark.parametrize(
    "script",
    [
        streaming(WORD, b"data: {no json\n\n"),
        streaming(WORD, b"data: 5\n\n"),
    ],
)
async def test_a_stream_of_nonsense(start: Starter, script: Any) -> None:
    world = await start(script)

    reply = await world.post("/api/chat", OLLAMA)

    assert "error" in json.loads(reply.body.splitlines()[-1])


async def test_an_answer_without_an_end(start: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lemonpod.gateway.data.retold._MAX_WHOLE", 1 << 20)

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(chunked("application/json", *[b" " * 65536] * 20, end=False))
        await connection.gone()

    world = await start(script)

    reply = await world.post("/v1/messages", ANTHROPIC)

    assert reply.json == anthropic("api_error", "test-engine sent an answer without an end")
    await world.until(lambda: world.driver.hung_up == 1)


async def test_no_stream_where_one_was_asked_for(start: Starter) -> None:
    world = await start(answer)

    reply = await world.post("/api/chat", OLLAMA)

    assert (reply.status, "without the stream" in reply.json["error"]) == (502, True)


async def test_no_json_where_some_was_asked_for(start: Starter) -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(ok(b"hello", "text/plain"))

    world = await start(script)

    reply = await world.post("/v1/messages", ANTHROPIC)
    assert reply.json == anthropic("api_error", "test-engine answered with what is no JSON object")


async def test_silence_in_a_message_is_filled(start: Starter) -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(chunked("text/event-stream", WORD, end=False))
        await asyncio.sleep(0.3)
        await connection.send(as_chunk(DONE) + b"0\r\n\r\n")

    world = await start(script, settings=GatewaySettings(heartbeat=0.05))
    messages = await world.post("/v1/messages", ANTHROPIC | {"stream": True})
    ollama = await world.post("/api/chat", OLLAMA)
    assert b"event: ping\n" in messages.body
    assert len(ollama.body.splitlines()) == 2


async def test_an_old_client_reads_up_to_the_end(start: Starter) -> None:
    world = await start(streaming(WORD, DONE))
    body = json.dumps(OLLAMA)
    reply = await world.raw(f"POST /api/chat HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    assert reply.value("Transfer-Encoding") is None
    assert json.loads(reply.body.splitlines()[-1])["done"]
