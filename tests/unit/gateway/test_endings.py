"""Every way in which a data request can end is told of as what it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lemonpod.engine.api import ExitStatus, InstanceState
from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection, Script
from tests.unit.gateway.wire import chunked, message, ok
from tests.unit.gateway.world import Starter, World

CHAT = "/v1/chat/completions"
BODY = b'{"model":"m"}'
EVENTS = "text/event-stream"
KEY = {"Authorization": "Bearer k"}
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"

Act = Callable[[World], Awaitable[object]]


def says(*pieces: bytes, stays: bool = True) -> Script:
    """An engine that answers so, and keeps the connection until the gateway ends it, or ends it itself."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"".join(pieces))
        if stays:
            await connection.gone()

    return script


async def resets(connection: Connection) -> None:
    await connection.request()
    connection.reset()


async def begins_and_resets(connection: Connection) -> None:
    await connection.request()
    await connection.send(chunked("audio/mpeg", b"12345", end=False))
    await asyncio.sleep(0.05)  # a reset would throw away what is not read
    connection.reset()


silent = says()
fine = says(ok(b"{}"))
stream = says(chunked(EVENTS, b"data: a\n\n", end=False))


# --- what the client, the operator and the engine do ------------------------------------------------------


async def ask(world: World) -> None:
    await world.post(CHAT, BODY, KEY)


def sending(headers: dict[str, str], body: bytes = BODY, *, key: bool = True) -> Act:
    async def act(world: World) -> None:
        await world.raw(message("POST", CHAT, headers | (KEY if key else {}), body))

    return act


async def break_the_body(world: World) -> None:
    client = await world.client()
    await client.send(message("POST", CHAT, KEY | {"Transfer-Encoding": "chunked"}))
    await asyncio.sleep(0.05)
    await client.send(b"2\r\n{}\r\nz\r\n")
    assert (await client.reply()).status == 400


def leaving(*, begun: bool = False, body: bytes = BODY, **headers: str) -> Act:
    """A client that goes when the engine has the request, or the answer has begun, or it never sent all."""

    async def act(world: World) -> None:
        client = await world.client()
        whole = "length" not in headers
        framing = {} if whole else {"Content-Length": headers["length"]}
        await client.send(message("POST", CHAT, KEY | framing, body))
        if begun:
            await client.head()
        elif whole:
            await world.until(lambda: bool(world.driver.received))
            await asyncio.sleep(0.05)  # until the gateway has read what the engine says
        else:
            await asyncio.sleep(0.05)
        client.abort()

    return act


async def leave_the_load(world: World) -> None:
    world.driver.ready.clear()
    client = await world.client()
    await client.send(message("POST", CHAT, KEY, BODY))
    await world.until(lambda: bool(world.driver.engines))
    client.abort()


async def crash_the_load(world: World) -> None:
    world.driver.ready.clear()
    asking = asyncio.create_task(ask(world))
    await world.until(lambda: bool(world.driver.engines) and world.driver.engines[0].started)
    world.driver.engines[0].die(ExitStatus(code=1))
    await asking


def stopping(how: Act, *, loading: bool = False, begun: bool = False) -> Act:
    async def act(world: World) -> None:
        if loading:
            world.driver.ready.clear()
        client = await world.client()
        await client.send(message("POST", CHAT, KEY, BODY))
        if begun:
            await client.head()
        await world.until(lambda: bool(world.driver.engines if loading else world.driver.received))
        await how(world)

    return act


async def unload(world: World) -> None:
    assert (await world.post("/v1/unload", b"{}", KEY)).status == 200


async def end_all_engines(world: World) -> None:
    await world.pool.aclose()


async def end_the_server_in_the_body(world: World) -> None:
    client = await world.client()
    await client.send(message("POST", CHAT, KEY | {"Content-Length": "100"}, b"{"))
    await asyncio.sleep(0.05)
    await world.end()


@pytest.mark.parametrize(
    ("script", "act", "status", "ending"),
    [
        pytest.param(fine, ask, 200, "complete", id="complete"),
        pytest.param(fine, sending({"Origin": "http://evil.example"}), 403, "error", id="origin"),
        pytest.param(fine, sending({}, key=False), 401, "error", id="key"),
        pytest.param(fine, sending({"Content-Length": "5000"}, b"{"), 413, "error", id="too-large"),
        pytest.param(fine, sending({}, b'{"model":'), 400, "error", id="malformed"),
        pytest.param(fine, sending({}, b'{"model":"nope"}'), 404, "error", id="unknown-model"),
        pytest.param(fine, sending({"Content-Length": "99"}, b"{"), 408, "error", id="body-stops"),
        pytest.param(fine, break_the_body, 400, "error", id="body-breaks"),
        pytest.param(fine, leaving(body=b"{", length="99"), None, "client_left", id="left-in-body"),
        pytest.param(fine, leave_the_load, None, "client_left", id="left-in-load"),
        pytest.param(silent, leaving(), None, "client_left", id="left-before-head"),
        pytest.param(says(JSON_HEAD, b"{"), leaving(), None, "client_left", id="left-before-json"),
        pytest.param(stream, leaving(begun=True), 200, "client_left", id="left-in-stream"),
        pytest.param(fine, crash_the_load, 500, "error", id="load-fails"),
        pytest.param(resets, ask, 502, "engine_broke_off", id="breaks-before-head"),
        pytest.param(
            says(JSON_HEAD, b"{", stays=False), ask, 502, "engine_broke_off", id="breaks-after-head-in-json"
        ),
        pytest.param(begins_and_resets, ask, 200, "engine_broke_off", id="breaks-in-bytes"),
        pytest.param(
            says(chunked(EVENTS, b"data: a\n\n", end=False), stays=False),
            *(ask, 200, "engine_broke_off"),
            id="breaks-in-stream",
        ),
        pytest.param(
            says(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"), ask, 500, "error", id="engines-error"
        ),
        pytest.param(
            says(b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n"), ask, 502, "error", id="engines-login"
        ),
        pytest.param(
            says(chunked(EVENTS, b'data: {"error":{"message":"x"}}\n\n')), ask, 200, "error", id="error-event"
        ),
        pytest.param(silent, stopping(unload, loading=True), 503, "stopped", id="unloaded-in-load"),
        pytest.param(silent, stopping(unload), 503, "stopped", id="unloaded-before-head"),
        pytest.param(stream, stopping(unload, begun=True), 200, "stopped", id="unloaded-in-stream"),
        pytest.param(silent, stopping(end_all_engines, loading=True), 503, "stopped", id="end-in-load"),
        pytest.param(silent, stopping(end_all_engines), 503, "stopped", id="end-before-head"),
        pytest.param(stream, stopping(end_all_engines, begun=True), 200, "stopped", id="end-in-stream"),
        pytest.param(fine, end_the_server_in_the_body, None, "stopped", id="end-in-body"),
    ],
)
async def test_how_it_ended(
    start: Starter, script: Script, act: Act, status: int | None, ending: str
) -> None:
    settings = GatewaySettings(api_key="k", max_body=1000, body_timeout=0.3)
    world = await start(script, settings=settings)

    await act(world)

    await world.until(lambda: bool(world.activities.tail(1)))
    (told,) = world.activities.tail(9)
    assert (told["status"], told["ending"]) == (status, ending)
    await world.until(lambda: not any(status.in_flight for status in world.pool.statuses()))


@pytest.mark.parametrize(
    ("broken", "script", "status"),
    [
        ("exchange.for_engine", fine, 500),
        ("answers.usage_in", fine, 500),
        ("usage.EventStream.closing", says(chunked(EVENTS, b"data: a\n\n")), 200),
    ],
)
async def test_a_bug_of_ours_is_not_the_engines(
    start: Starter, monkeypatch: pytest.MonkeyPatch, broken: str, script: Script, status: int
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    world = await start(script)
    monkeypatch.setattr(f"lemonpod.gateway.data.{broken}", fails)

    reply = await world.post(CHAT, BODY)

    assert reply.status == status
    assert not (reply.complete and status == 200)
    (told,) = world.activities.tail(9)
    assert (told["status"], told["ending"]) == (status, "error")
    await world.until(lambda: not world.pool.statuses()[0].in_flight)


# --- what it waited for, and what was used ----------------------------------------------------------------


async def test_a_wait_is_told_of_as_what_it_was_for(start: Starter) -> None:
    async def waits_once(connection: Connection) -> None:
        await connection.request()
        if len(world.driver.engines) == 1:
            await connection.gone()
        await connection.send(ok(b"{}"))

    world = await start(waits_once)
    first = asyncio.create_task(ask(world))
    await world.until(lambda: bool(world.driver.received))
    unloading = asyncio.create_task(unload(world))
    await world.until(lambda: world.pool.statuses()[0].state is InstanceState.STOPPING)

    await ask(world)  # behind the end of the engine that still has a request
    await asyncio.gather(first, unloading)
    await ask(world)
    await world.post(CHAT, b'{"model":"m","x":"%b"}' % (b"x" * (1 << 20)))  # read aside, as it is long

    loaded, queued, quick, long = world.activities.tail(9)
    assert (loaded["queue_ms"], loaded["load_ms"] is None) == (None, False)
    waits = [queued["queue_ms"], queued["load_ms"]]
    assert all(isinstance(wait, float) and wait > 0 for wait in waits)
    assert [(one["queue_ms"], one["load_ms"]) for one in (quick, long)] == [(None, None)] * 2


async def test_who_leaves_a_stream_has_used_what_came(start: Starter) -> None:
    event = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    world = await start(says(chunked(EVENTS, event, event, end=False)))

    await leaving(begun=True)(world)

    await world.until(lambda: bool(world.activities.tail(1)))
    (told,) = world.activities.tail(1)
    assert told["output_tokens"] == 2
    assert isinstance(told["bytes_out"], int)
    assert told["bytes_out"] >= 2 * len(event)  # it was probed
    assert told["first_token_ms"]


@pytest.mark.parametrize(("slow", "lines"), [(60, 1), (0, 2)])
async def test_the_log_tells_of_failures_and_of_all_that_is_wished(
    start: Starter, caplog: pytest.LogCaptureFixture, slow: float, lines: int
) -> None:
    caplog.set_level("INFO", "lemonpod.gateway.data.activity")
    world = await start(fine, settings=GatewaySettings(slow_request=slow))

    await world.post(CHAT, BODY)
    await world.post(CHAT, b'{"model":"nope"}')

    told = [record.message for record in caplog.records if record.name.endswith(".activity")]
    assert len(told) == lines
    assert told[-1].startswith(f"POST {CHAT}: 404 error, nope, ")
