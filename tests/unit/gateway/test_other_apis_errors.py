"""What goes wrong with requests of Ollama's and Anthropic's clients is told in their words."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection
from tests.unit.gateway.test_gates import MODEL
from tests.unit.gateway.test_other_apis import ANTHROPIC, DONE, OLLAMA, WORD, answer, streaming
from tests.unit.gateway.wire import as_chunk, chunked, message, ok
from tests.unit.gateway.world import Starter


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
