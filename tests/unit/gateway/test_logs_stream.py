"""`/logs/stream`: what is said, to viewers at their own pace."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from lemonpod.drivers.process import ProcessDriver
from lemonpod.engine.journal import MAX_ENTRIES, Journal
from lemonpod.engine.settings import EngineSettings
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.log import copied_to, set_up_logging
from tests.fakes.socket import echo
from tests.unit.gateway.sockets import dial, ending, offer, refused
from tests.unit.gateway.wire import message
from tests.unit.gateway.world import Starter, World
from tests.waiting import until

LOGS = "/logs/stream"
LOUD = """
import time
for number in range(100_000):
    print(number, "x" * 100)
print("done", flush=True)
time.sleep(60)
"""
KEYED = GatewaySettings(api_key="sk", admin_api_key="admin")


def say(world: World, *lines: str, tag: str = "x") -> None:
    world.journal.extend("Info", tag, [line.encode() for line in lines])


async def ask(client: ClientConnection, **asked: Any) -> dict[str, Any]:
    await client.send(json.dumps(asked))
    return await heard(client)


async def heard(client: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(5):
        document: dict[str, Any] = json.loads(await client.recv())
    return document


def lines_of(snapshot: dict[str, Any]) -> list[str]:
    assert snapshot["type"] == "logs.snapshot"
    return [entry["line"].rpartition(") ")[2] for entry in snapshot["entries"]]


@pytest.mark.parametrize("prefix", ["", "/api/v0", "/api/v1", "/v0", "/v1"])
async def test_history_first_and_then_what_comes(start: Starter, prefix: str) -> None:
    world = await start(echo)
    say(world, "one", "two")
    client = await dial(world, prefix + LOGS)

    assert lines_of(await ask(client, type="logs.subscribe", after_seq=None)) == ["one", "two"]
    say(world, "three", tag="user.m")
    told = await heard(client)

    assert told["type"] == "logs.entry"
    assert told["entry"] == world.journal.read(2, 1)[0].as_json()
    assert (told["entry"]["seq"], told["entry"]["tag"]) == (3, "user.m")
    await client.close()
    assert client.close_code == 1000


async def test_who_comes_again_gets_the_rest(start: Starter) -> None:
    world = await start(echo)
    say(world, "one", "two", "three")
    client = await dial(world, LOGS)

    assert lines_of(await ask(client, type="logs.subscribe", after_seq=2)) == ["three"]
    assert lines_of(await ask(client, type="logs.subscribe", after_seq=3)) == []
    say(world, "four")
    assert (await heard(client))["entry"]["seq"] == 4
    assert lines_of(await ask(client, type="logs.subscribe", after_seq=1000)) == [
        "one",
        "two",
        "three",
        "four",
    ]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("{", "Invalid JSON: "),
        ("[" * 100_000, ""),
        ("[]", "Invalid JSON: a message must be an object"),
        ("{}", "Expected logs.subscribe message"),
        ('{"type":"session.update"}', "Expected logs.subscribe message"),
        ('{"type":"logs.subscribe","after_seq":"1"}', "'after_seq' must be the number of a line"),
        ('{"type":"logs.subscribe","after_seq":true}', "'after_seq' must be the number of a line"),
        ('{"type":"logs.subscribe","after_seq":-1}', "'after_seq' must be the number of a line"),
        ('{"type":"auth","token":"x"}', "Invalid API key"),
        ('{"type":"auth","token":"\\ud800"}', "Invalid API key"),
    ],
)
async def test_what_cannot_be_done_is_told(start: Starter, asked: str, told: str) -> None:
    world = await start(echo, settings=KEYED)
    client = await dial(world, LOGS, headers={"Authorization": "Bearer sk"})
    await client.send(asked)

    if len(asked) > 64 << 10:
        assert (await ending(client))[0] == 1009
        return
    answer = await heard(client)
    assert (answer["type"], answer["error"]["type"]) == ("error", "invalid_request_error")
    assert answer["error"]["message"].startswith(told)
    assert lines_of(await ask(client, type="logs.subscribe")) == []


# --- who may view -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["sk", "admin"])
@pytest.mark.parametrize("way", ["header", "query", "openai", "lemonade", "message"])
async def test_each_way_to_carry_a_key(start: Starter, key: str, way: str) -> None:
    world = await start(echo, settings=KEYED)
    encoded = base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
    client = await dial(
        world,
        f"{LOGS}?api_key={key}" if way == "query" else LOGS,
        headers={"Authorization": f"Bearer {key}"} if way == "header" else {},
        protocols={
            "openai": [f"openai-insecure-api-key.{key}"],
            "lemonade": ["lemonade-realtime", f"bearer.{encoded}"],
        }.get(way, []),
    )
    assert client.subprotocol == ("lemonade-realtime" if way == "lemonade" else None)
    if way == "message":
        told = await ask(client, type="logs.subscribe")
        assert told["error"]["message"].startswith("Unauthorized.")
        assert await ask(client, type="auth", api_key=key) == {"type": "auth.ok"}

    assert lines_of(await ask(client, type="logs.subscribe")) == []


async def test_who_sends_no_key_has_to_leave(start: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    world = await start(echo, settings=KEYED)
    monkeypatch.setattr("lemonpod.gateway.logs_stream._PROOF", 0.5)
    stranger, user = await dial(world, LOGS), await dial(world, LOGS)
    assert await ask(user, type="auth", token="sk") == {"type": "auth.ok"}

    assert await ending(stranger) == (1008, "no key has come")
    assert lines_of(await ask(user, type="logs.subscribe")) == []


@pytest.mark.parametrize("options", [
    {"headers": {"Authorization": "Bearer other"}},
    {"protocols": ["openai-insecure-api-key.other"]},
    {"target": f"{LOGS}?api_key=other"},
])  # fmt: skip
async def test_a_wrong_key_opens_nothing(start: Starter, options: dict[str, Any]) -> None:
    world = await start(echo, settings=KEYED)

    status, body = await refused(world, **{"target": LOGS, **options})

    assert (status, json.loads(body)) == (401, {"error": "Invalid or missing API key"})


@pytest.mark.parametrize("path", ["/v1/models/x/logs/stream", "/v1/models//logs/stream", "/v1/x/logs/stream"])
async def test_a_path_that_only_ends_like_it_needs_its_key(start: Starter, path: str) -> None:
    world = await start(echo, settings=KEYED)

    assert (await world.get(path)).status == 401


async def test_without_an_offer_it_is_told_what_this_is(start: Starter) -> None:
    world = await start(echo, settings=KEYED)

    assert (await world.get(LOGS)).status == 401
    assert (await world.get(LOGS, Authorization="Bearer sk")).status == 426
    assert (await world.post(LOGS, {}, {"Authorization": "Bearer sk"})).status == 405


async def test_a_foreign_page_may_not_view(start: Starter) -> None:
    world = await start(echo)

    assert (await refused(world, LOGS, headers={"Origin": "https://evil.example"}))[0] == 403


async def test_no_key_is_logged(start: Starter, capsys: pytest.CaptureFixture[str]) -> None:
    world = await start(echo, settings=KEYED)
    before = logging.getLogger().handlers[:], logging.getLogger().level
    set_up_logging("debug")
    logging.getLogger("websockets").setLevel(logging.INFO)  # the client's own
    try:
        await dial(world, LOGS, protocols=["openai-insecure-api-key.sk"])
        await dial(world, f"{LOGS}?api_key=sk")
        await refused(world, f"{LOGS}?api_key=skskw", protocols=["openai-insecure-api-key.skskx"])
    finally:
        logging.getLogger().handlers[:], level = before
        logging.getLogger().setLevel(level)
        logging.getLogger("websockets").setLevel(logging.NOTSET)
    said = capsys.readouterr().err
    assert "insecure-api-key" not in said
    assert "sksk" not in said


# --- slow viewers -----------------------------------------------------------------------------------------


async def narrow_viewer(world: World) -> socket.socket:
    """One that has subscribed, whose kernel takes little, and that has not read anything yet."""
    viewer = socket.socket()
    viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 10)
    viewer.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(viewer, ("127.0.0.1", world.port))
    subscribe = b'{"type":"logs.subscribe"}'
    frame = bytes((0x81, 0x80 | len(subscribe))) + bytes(4) + subscribe
    await loop.sock_sendall(viewer, message("GET", LOGS, offer()) + frame)
    return viewer


async def test_a_slow_viewer_slows_nobody_and_hears_what_it_missed(start: Starter) -> None:
    world = await start(echo)
    engine = world.journal.buffer("user.m")
    lazy = await narrow_viewer(world)

    for number in range(1000):  # far more than all buffers on the way hold
        engine.extend([b"%d " % number + b"x" * 200] * 50)
        if number % 10 == 0:
            await asyncio.sleep(0)
    assert len(world.journal.read(0, 1 << 20)) <= MAX_ENTRIES
    assert (await world.get("/live")).status == 200

    received = bytearray()
    async with asyncio.timeout(20):
        while b'"seq": 50000,' not in received:
            received += await asyncio.get_running_loop().sock_recv(lazy, 1 << 16)
    lazy.close()
    assert b"lines were skipped here" in received


async def test_an_engine_says_all_it_has_to_say_beside_a_viewer_that_reads_nothing(
    start: Starter, tmp_path: Path
) -> None:
    journal = Journal()
    driver = ProcessDriver(tmp_path / "state", dict(os.environ), EngineSettings(), journal=journal)
    block = {"command": sys.executable, "args": ["-c", LOUD]}
    world = await start(
        echo,
        drivers=[driver],
        journal=journal,
        platforms={"linux": {"cpu": block}},
        health_probe={"type": "process"},
    )
    lazy = await narrow_viewer(world)

    await world.post("/v1/load", {"model_name": "m"})

    await until(lambda: any(entry.text == "done" for entry in journal.read(journal.last - 9, 100)))
    assert (await world.get("/live")).status == 200
    lazy.close()
    await world.pool.aclose()
    await driver.aclose()


async def test_two_viewers_do_not_wait_for_each_other(start: Starter) -> None:
    world = await start(echo)
    clients = [await dial(world, LOGS) for _ in range(20)]
    for client in clients:
        assert lines_of(await ask(client, type="logs.subscribe")) == []

    say(world, *map(str, range(200)))

    for client in clients:
        assert [(await heard(client))["entry"]["seq"] for _ in range(200)] == list(range(1, 201))


async def test_silence_is_filled(start: Starter) -> None:
    world = await start(echo, settings=GatewaySettings(heartbeat=0.05))
    client = await world.client()
    subscribe = b'{"type":"logs.subscribe"}'
    frame = bytes((0x81, 0x80 | len(subscribe))) + bytes(4) + subscribe
    await client.send(message("GET", LOGS, offer()) + frame)
    assert (await client.head()).status == 101

    snapshot = b'{"type": "logs.snapshot", "entries": []}'
    expected = bytes((0x81, len(snapshot))) + snapshot + b"\x89\x00" * 3
    async with asyncio.timeout(5):
        assert await client.reader.readexactly(len(expected)) == expected


# --- the end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("abrupt", [True, False])
async def test_a_viewer_that_leaves_is_forgotten(start: Starter, abrupt: bool) -> None:
    world = await start(echo)
    tasks = len(asyncio.all_tasks())
    client = await dial(world, LOGS)
    await ask(client, type="logs.subscribe")

    client.transport.abort() if abrupt else await client.close()

    await world.until(lambda: len(asyncio.all_tasks()) <= tasks)


async def test_the_server_says_that_it_ends(start: Starter) -> None:
    world = await start(echo)
    clients = [await dial(world, LOGS) for _ in range(2)]
    await ask(clients[0], type="logs.subscribe")

    closing = asyncio.gather(*map(ending, clients))
    await world.end()

    assert await closing == [(1001, "the server is shutting down")] * 2


async def test_the_servers_own_log_is_in_it(start: Starter) -> None:
    world = await start(echo)
    log = logging.getLogger("lemonpod.engine.pool")
    client = await dial(world, LOGS)
    await ask(client, type="logs.subscribe")
    with copied_to(world.journal, asyncio.get_running_loop()):
        await asyncio.to_thread(log.warning, "from a thread with api_key=%s", "abc")
        entry = (await heard(client))["entry"]

    assert (entry["severity"], entry["tag"]) == ("Warning", "engine.pool")
    assert entry["line"].endswith("(engine.pool) from a thread with api_key=…")
