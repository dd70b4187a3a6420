"""How `/realtime` begins: who may, what the engine is asked, and what the client is told."""

from __future__ import annotations

import asyncio
import base64
import json
import re

import pytest

from lemonpod.gateway.data.frames import close_frame
from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection
from tests.fakes.socket import EngineSocket, echo
from tests.unit.gateway.sockets import REALTIME, StartSocket, dial, idle, offer, refused
from tests.unit.gateway.wire import message
from tests.unit.gateway.world import Starter

KEYED = GatewaySettings(api_key="sk", admin_api_key="admin")


# --- the handshake ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/api/v0", "/api/v1", "/v0", "/v1"])
async def test_a_socket_loads_its_model_and_holds_its_engine(serve: StartSocket, prefix: str) -> None:
    world = await serve(echo)
    client = await dial(world, f"{prefix}/realtime?model=m")

    await client.send("hello")
    assert await client.recv() == "hello"
    assert [status.in_flight for status in world.pool.statuses()] == [1]
    (item,) = (await world.get("/v1/health")).json["all_models_loaded"]
    assert (item["status"], item["is_streaming"]) == ("in_use", True)

    await client.close(4000, "enough")
    await world.until(lambda: idle(world))
    (told,) = world.activities.tail(9)
    assert (told["path"], told["status"], told["ending"]) == (f"{prefix}/realtime", 101, "complete")
    assert (told["model"], told["recipe"]) == ("m", "test-engine")


async def test_the_engine_is_asked_as_the_client_asked(serve: StartSocket) -> None:
    asked: list[tuple[str, list[tuple[str, str]]]] = []

    async def script(connection: Connection) -> None:
        request = (await EngineSocket.accept(connection)).request
        asked.append((request.path, list(request.headers.raw_items())))
        await connection.gone()

    world = await serve(script, KEYED)
    headers = {
        "Authorization": "Bearer sk",
        "Cookie": "a=b",
        "X-Mine": "1",
        "Origin": "http://localhost:3000",
    }
    await dial(world, "/v1/realtime?intent=transcription&model=m&api_key=sk&x=%20+", headers=headers)

    ((path, sent),) = asked
    assert path == "/v1/realtime?intent=transcription&model=user.m&x=%20+"
    names = [name.lower() for name, _ in sent]
    assert not {"authorization", "cookie", "origin"} & set(names)
    assert len(set(names)) == len(names)
    values = {name.lower(): value for name, value in sent}
    assert values["x-mine"] == "1"
    assert values["upgrade"] == "websocket"


async def test_the_manifest_says_the_engines_path(serve: StartSocket) -> None:
    world = await serve(echo, endpoints={"streaming_transcription": "/stream"})
    seen: list[str] = []

    async def script(connection: Connection) -> None:
        seen.append((await EngineSocket.accept(connection)).request.path)

    world.driver.script = script
    await dial(world)
    assert seen == ["/stream?model=user.m"]


async def test_without_a_name_it_is_the_model_that_was_used_last(serve: StartSocket) -> None:
    world = await serve(echo)
    assert (await refused(world, "/realtime"))[0] == 400
    await world.post("/v1/load", {"model_name": "m"})

    client = await dial(world, "/realtime?intent=transcription")
    await client.send(b"x")
    assert await client.recv() == b"x"


# H45
@pytest.mark.parametrize(
    ("offered", "takes", "passed", "chosen"),
    [
        (["realtime", "openai-insecure-api-key.sk"], ["realtime"], "realtime", "realtime"),
        (["realtime", "openai-insecure-api-key.sk", "openai-beta.v1"], [], "realtime, openai-beta.v1", None),
        (["lemonade-realtime", "bearer.c2s"], [], None, "lemonade-realtime"),
        (["a", "b"], ["b"], "a, b", "b"),
        ([], [], None, None),
    ],
)
async def test_the_engine_chooses_the_subprotocol(
    serve: StartSocket, offered: list[str], takes: list[str], passed: str | None, chosen: str | None
) -> None:
    seen: list[str | None] = []

    async def script(connection: Connection) -> None:
        socket = await EngineSocket.accept(connection, subprotocols=takes)
        seen.append(socket.request.headers.get("Sec-WebSocket-Protocol"))
        await connection.gone()

    world = await serve(script)
    client = await dial(world, protocols=offered)

    assert seen == [passed]
    assert client.subprotocol == chosen
    assert client.response is not None
    assert client.response.headers.get("Sec-WebSocket-Protocol") == chosen  # never a blank one


@pytest.mark.parametrize("key", ["sk", "admin"])
@pytest.mark.parametrize("way", ["header", "query", "openai", "lemonade"])
async def test_each_way_to_carry_a_key(serve: StartSocket, key: str, way: str) -> None:
    world = await serve(echo, KEYED)
    encoded = base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
    target = f"{REALTIME}&api_key={key}" if way == "query" else REALTIME
    headers = {"Authorization": f"Bearer {key}"} if way == "header" else {}
    protocols = {
        "openai": [f"openai-insecure-api-key.{key}"],
        "lemonade": ["lemonade-realtime", f"bearer.{encoded}"],
    }
    client = await dial(world, target, headers=headers, protocols=protocols.get(way, []))

    await client.send("x")
    assert await client.recv() == "x"


@pytest.mark.parametrize(
    ("target", "protocols", "authorization"),
    [
        (REALTIME, [], None),
        (REALTIME, [], "Bearer other"),
        (f"{REALTIME}&api_key=other", [], None),
        (f"{REALTIME}&api_key=", [], None),
        (REALTIME, ["realtime", "openai-insecure-api-key.other"], None),
        (REALTIME, ["bearer.b3RoZXI"], None),
        (REALTIME, ["bearer.~"], None),
    ],
)
async def test_without_the_key_no_engine_is_asked(
    serve: StartSocket, target: str, protocols: list[str], authorization: str | None
) -> None:
    world = await serve(echo, KEYED)
    headers = {"Authorization": authorization} if authorization else {}

    status, body = await refused(world, target, protocols=protocols, headers=headers)

    assert (status, json.loads(body)) == (401, {"error": "Invalid or missing API key"})
    assert not world.driver.engines


@pytest.mark.parametrize(
    ("origin", "opens"),
    [("http://localhost:3000", True), ("https://evil.example", False), ("null", False)],
)
async def test_a_page_needs_an_origin_that_may_call(serve: StartSocket, origin: str, opens: bool) -> None:
    world = await serve(echo)
    if opens:
        client = await dial(world, headers={"Origin": origin})
        await client.close()
        return

    status, body = await refused(world, headers={"Origin": origin})

    assert (status, json.loads(body)) == (403, {"error": "Origin not allowed"})
    assert not world.driver.engines


async def test_an_engine_that_declares_no_streaming_is_not_asked(start: Starter) -> None:
    world = await start(echo, capabilities=["transcription"])

    status, body = await refused(world)

    assert status == 400
    assert json.loads(body)["error"] == {
        "message": "Streaming transcription not supported by cpu",
        "type": "unsupported_operation",
    }
    assert not world.driver.engines


async def test_an_unknown_model_is_told_by_its_name(serve: StartSocket) -> None:
    status, body = await refused(await serve(echo), "/v1/realtime?model=nobody")

    assert (status, json.loads(body)["error"]["requested_model"]) == (404, "nobody")


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 426),
        ("HEAD", {}, 426),
        ("POST", {}, 405),
        ("GET", offer() | {"Upgrade": "h2c"}, 426),
        ("GET", offer() | {"Connection": "close"}, 426),
        ("GET", offer() | {"Sec-WebSocket-Version": "8"}, 426),
        ("GET", offer() | {"Sec-WebSocket-Key": "short"}, 400),
        ("GET", offer() | {"Sec-WebSocket-Key": ""}, 400),
        ("POST", offer(), 405),
    ],
)
async def test_what_is_no_offer(
    serve: StartSocket, method: str, headers: dict[str, str], status: int
) -> None:
    world = await serve(echo)

    reply = await world.request(method, REALTIME, headers)

    assert reply.status == status
    if status == 426:
        assert reply.values("Upgrade") == ["websocket"]
    assert not world.driver.engines


@pytest.mark.parametrize("status", [200, 302, 404, 429, 500])
async def test_an_engine_that_refuses(serve: StartSocket, status: int) -> None:  # H13, H45
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 %d No\r\nContent-Length: 4\r\n\r\nnope" % status)
        await connection.gone()

    world = await serve(script)

    code, body = await refused(world)

    message = json.loads(body)["error"]["message"]
    assert (code, message) == (502, f"test-engine refused the WebSocket with status {status}: nope")
    await world.until(lambda: idle(world) and world.driver.hung_up == 1)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: nonsense\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"",
        b"SSH-2.0-x\r\n",
    ],
)
async def test_an_engine_that_speaks_something_else(serve: StartSocket, answer: bytes) -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(answer)

    world = await serve(script)

    assert (await refused(world))[0] == 502
    await world.until(lambda: idle(world))


async def test_an_engine_that_never_answers(serve: StartSocket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lemonpod.gateway.data.tunnel._HANDSHAKE", 0.05)
    world = await serve(Connection.gone)

    status, body = await refused(world)

    assert status == 502
    assert "did not answer the handshake" in json.loads(body)["error"]["message"]


# --- nothing behind an offer is a request -----------------------------------------------------------------


EVIL = message("GET", "/v1/models") + message("POST", "/internal/shutdown")


@pytest.mark.parametrize(
    "headers", [offer() | {"Sec-WebSocket-Key": "short"}, offer(Origin="https://e.example")]
)
@pytest.mark.parametrize("path", ["/v1/realtime?model=m", "/logs/stream"])
async def test_what_stands_behind_a_refused_offer_is_never_read(
    serve: StartSocket, headers: dict[str, str], path: str
) -> None:
    world = await serve(echo)
    client = await world.client()
    await client.send(message("GET", path, headers) + EVIL)

    received = await client.reader.read()

    assert received.count(b"HTTP/1.1 ") == 1
    assert re.search(rb"\r\nConnection: (Upgrade, )?close\r\n", received)
    assert not world.shut_down.is_set()


async def test_what_stands_behind_a_taken_offer_is_the_engines(serve: StartSocket) -> None:
    got = bytearray()

    async def script(connection: Connection) -> None:
        await EngineSocket.accept(connection)
        while data := await connection.reader.read(1 << 16):
            got.extend(data)

    world = await serve(script)
    client = await world.client()
    early = close_frame(1000, "x", masked=True)[:3]
    frame = bytes((0x82, 0x80 | 126)) + len(EVIL).to_bytes(2, "big") + bytes(4) + EVIL
    await client.send(message("GET", REALTIME, offer()) + frame + early)

    assert (await client.head()).status == 101
    await world.until(lambda: len(got) >= len(frame))
    client.writer.write_eof()
    await world.until(lambda: idle(world))
    assert bytes(got) == frame  # the head of a frame that is not whole never passed
    assert not world.shut_down.is_set()


@pytest.mark.parametrize(
    "framing", [{"Content-Length": "5"}, {"Transfer-Encoding": "chunked"}, {"Content-Length": "0"}]
)
async def test_an_offer_with_a_body_is_none(serve: StartSocket, framing: dict[str, str]) -> None:
    world = await serve(echo)
    client = await world.client()
    body = {"5": b"abcde", "0": b""}.get(framing.get("Content-Length", ""), b"5\r\nabcde\r\n0\r\n\r\n")
    await client.send(message("GET", REALTIME, offer() | framing) + body)
    reply = await client.head()

    assert reply.status == (101 if framing.get("Content-Length") == "0" else 426)


async def test_an_offer_waits_for_its_turn(serve: StartSocket) -> None:
    world = await serve(echo)
    client = await world.client()
    await client.send(message("GET", "/live") + message("GET", REALTIME, offer()) + b"\x81\x81\0\0\0\0a")

    assert (await client.reply()).json == {"status": "ok"}
    assert (await client.head()).status == 101
    assert await client.reader.readexactly(3) == b"\x81\x01a"


async def test_split_anywhere_it_means_the_same(serve: StartSocket) -> None:
    world = await serve(echo)
    await world.post("/v1/load", {"model_name": "m"})
    sent = message("GET", REALTIME, offer()) + b"\x82\x83\1\2\3\4abc"
    expected = bytes((0x82, 3, ord("a") ^ 1, ord("b") ^ 2, ord("c") ^ 3))
    for at in range(1, len(sent)):
        client = await world.client()
        await client.send(sent[:at])
        await asyncio.sleep(0)
        await client.send(sent[at:])
        assert (await client.head()).status == 101
        assert await client.reader.readexactly(len(expected)) == expected, at
        client.abort()
    await world.until(lambda: idle(world))
