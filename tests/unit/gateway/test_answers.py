"""What a client gets to see of an engine's answer."""

# Long because it is the list of what engines do to an answer, read against one scripted engine.

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable

import pytest

from lemonpod.engine.api import ExitStatus
from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection, Script
from tests.unit.gateway.wire import as_chunk, chunked, message, ok
from tests.unit.gateway.world import Starter

CHAT = "/v1/chat/completions"
BODY = b'{"model":"m"}'
EVENTS = "text/event-stream"

Act = Callable[[Connection], Awaitable[None]]


def answers(*pieces: bytes) -> Script:
    """An engine that reads a request, writes the pieces and closes the connection."""

    async def script(connection: Connection) -> None:
        await connection.request()
        for piece in pieces:
            await connection.send(piece)
            await asyncio.sleep(0)

    return script


def then(first: bytes, act: Act) -> Script:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(first)
        await act(connection)

    return script


async def wait_until_read(connection: Connection) -> None:
    """Until the gateway has taken what was sent: a reset would throw it away."""
    await asyncio.sleep(0.05)


async def reset(connection: Connection) -> None:
    await wait_until_read(connection)
    connection.reset()


async def test_the_model_is_called_what_the_client_called_it(start: Starter) -> None:
    world = await start(
        answers(ok(b'{"id":1, "model":"/path/x.gguf","choices":[{"model":"inner"}],"n":1.10}'))
    )

    reply = await world.post(CHAT, BODY)

    assert reply.body == b'{"id":1, "model":"m","choices":[{"model":"inner"}],"n":1.10}'
    assert reply.value("Content-Length") == str(len(reply.body))


@pytest.mark.parametrize("body", [b"[1,2]", b'{"model":', b'{"model":7}', b""])
async def test_an_answer_that_is_not_as_expected_passes_unchanged(start: Starter, body: bytes) -> None:
    world = await start(answers(ok(body)))

    reply = await world.post(CHAT, BODY)

    assert (reply.status, reply.body, reply.complete) == (200, body, True)


async def test_a_long_json_answer_passes_unread(start: Starter) -> None:
    body = b'{"model":"x","data":"' + b"0" * (3 << 20) + b'"}'
    world = await start(answers(ok(body)))

    reply = await world.post(CHAT, BODY)

    assert reply.body == body
    assert reply.complete


@pytest.mark.parametrize(
    ("asked", "content_type"), [("gzip", "application/json"), ("", "application/json"), ("gzip", EVENTS)]
)
async def test_compressed_bytes_stay_compressed(start: Starter, asked: str, content_type: str) -> None:  # H01
    packed = gzip.compress(b'{"ok":1}' * 50)
    world = await start(answers(ok(packed, content_type, "Content-Encoding: gzip")))

    reply = await world.post(CHAT, BODY, {"Accept-Encoding": asked} if asked else None)

    assert reply.body == packed
    assert reply.value("Content-Encoding") == "gzip"
    assert reply.value("Content-Length") == str(len(packed))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_the_clients_to_follow(start: Starter, status: int) -> None:  # H13
    async def secret(connection: Connection) -> None:
        request = await connection.request()
        if request.target == "/login":
            await connection.send(ok(b'"secret"'))
        else:
            location = f"http://{request.value('Host')}/login"
            await connection.send(
                f"HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
            )

    world = await start(secret)

    reply = await world.post(CHAT, BODY)

    assert reply.status == status
    assert reply.value("Location")
    assert len(world.driver.received) == 1


@pytest.mark.parametrize("body", [b"1\n00:00:00,000 --> 00:00:02,000\nHello\n", b"", b"\xff\x00binary"])
async def test_text_and_binary_pass_with_their_type(start: Starter, body: bytes) -> None:  # H25
    world = await start(answers(ok(body, "text/plain; charset=utf-8")))

    reply = await world.post(CHAT, BODY)

    assert reply.body == body
    assert reply.value("Content-Type") == "text/plain; charset=utf-8"


async def test_head_stays_head(start: Starter) -> None:  # H19
    async def engine(connection: Connection) -> None:
        await connection.request()
        await connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1234\r\n\r\n"
        )
        await connection.gone()

    world = await start(engine, capabilities=["slots"])
    client = await world.client()
    await client.send(message("HEAD", "/v1/slots?model=m"))

    reply = await client.reply(method="HEAD")
    assert reply.value("Content-Length") == "1234"
    assert world.driver.received[0].method == "HEAD"
    await client.send(message("GET", "/live"))
    assert (await client.reply()).json == {"status": "ok"}


@pytest.mark.parametrize("length", ["", "Content-Length: 5\r\n"])
@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body_have_none(start: Starter, status: int, length: str) -> None:  # H19
    """Nor is one waited for that a 304 only speaks of."""
    world = await start(answers(f"HTTP/1.1 {status} X\r\nX-Tag: 1\r\n{length}\r\n".encode()))
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY) + message("GET", "/live"))

    reply = await client.reply()
    assert reply.status == status
    assert reply.value("Transfer-Encoding") is None
    assert reply.value("X-Tag") == "1"
    assert (await client.reply()).json == {"status": "ok"}


async def test_headers_of_the_engines_connection_end_there(start: Starter) -> None:  # H09
    headers = (
        "Connection: close, X-Hop",
        "X-Hop: 1",
        "Keep-Alive: timeout=5",
        "Server: engine",
        "X-Id: 1",
        "X-Id: 2",
    )
    world = await start(answers(ok(b"{}", "application/json", *headers)))

    reply = await world.post(CHAT, BODY)

    assert not reply.values("X-Hop") + reply.values("Keep-Alive")
    assert reply.values("Server") == ["lemonpod"]
    assert len(reply.values("Date")) == 1
    assert reply.values("X-Id") == ["1", "2"]


async def test_events_come_one_by_one_and_unbuffered(start: Starter) -> None:  # H31
    go_on = asyncio.Event()

    async def second(connection: Connection) -> None:
        await go_on.wait()
        await connection.send(as_chunk(b"data: b\n\ndata: [DONE]\n\n") + b"0\r\n\r\n")

    world = await start(then(chunked(EVENTS, b"data: a\n\n", end=False), second))
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY))

    head = await client.head()
    assert (head.value("Cache-Control"), head.value("X-Accel-Buffering")) == ("no-cache", "no")
    assert head.value("Connection") == "keep-alive"
    assert head.value("Content-Type") == EVENTS
    assert await client.chunk() == b"data: a\n\n"
    go_on.set()
    assert await client.chunk() == b"data: b\n\ndata: [DONE]\n\n"
    assert await client.chunk() == b""


async def test_a_stream_does_not_promise_a_connection_that_the_client_ends(start: Starter) -> None:
    world = await start(answers(chunked(EVENTS, b"data: [DONE]\n\n")))

    assert (await world.post(CHAT, BODY, {"Connection": "close"})).values("Connection") == ["close"]


async def test_a_header_that_cannot_be_sent_again_costs_no_answer(start: Starter) -> None:
    world = await start(answers(b"HTTP/1.1 200 X\r\nX-Bad: a\x01b\r\nX-Id: 1\r\nContent-Length: 2\r\n\r\nok"))

    reply = await world.post(CHAT, BODY)

    assert (reply.status, reply.body, reply.value("X-Id"), reply.value("X-Bad")) == (200, b"ok", "1", None)


@pytest.mark.parametrize("content_type", ["audio/mpeg", "application/json"])
@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/audio/generations", "/v1/3d/generations"])
async def test_a_file_without_a_byte_is_a_failure(start: Starter, path: str, content_type: str) -> None:
    capabilities = ["tts", "audio_generation", "model_3d"]
    world = await start(answers(ok(b"", content_type)), capabilities=capabilities)

    reply = await world.post(path, {"model": "m", "input": "hi"})

    assert (reply.status, reply.error["type"]) == (502, "backend_error")
    assert "the backend produced no output" in reply.error["message"]


async def test_no_heartbeat_is_no_comment(start: Starter) -> None:
    async def second(connection: Connection) -> None:
        await wait_until_read(connection)
        await connection.send(as_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    head = chunked(EVENTS, b"data: a\n\n", end=False)
    world = await start(then(head, second), settings=GatewaySettings(heartbeat=0))

    assert (await world.post(CHAT, BODY)).body == b"data: a\n\ndata: [DONE]\n\n"


async def test_split_characters_and_broken_bytes_pass(start: Starter) -> None:  # H27
    pieces = [b'data: {"c":"\xe6\x97', b'\xa5"}\n\n', b"data: \xff\n\n", b"data: [DONE]\n\n"]
    world = await start(answers(chunked(EVENTS, end=False), *map(as_chunk, pieces), b"0\r\n\r\n"))

    assert (await world.post(CHAT, BODY)).body == b"".join(pieces)


@pytest.mark.parametrize(
    "error", [b'error: {"code":400,"message":"too long"}\n\n', b'data: {"error":{"message":"too long"}}\n\n']
)
async def test_an_engines_own_error_passes_and_counts_as_one(
    start: Starter, caplog: pytest.LogCaptureFixture, error: bytes
) -> None:  # H29
    stream = error + b"data: [DONE]\n\n"
    world = await start(answers(chunked(EVENTS, stream)))

    reply = await world.post(CHAT, BODY)

    assert (reply.body, reply.complete) == (stream, True)
    assert world.activities.tail(1)[0]["ending"] == "error"
    assert "test-engine told of an error in its stream" in caplog.text


@pytest.mark.parametrize(
    ("stream", "seen"),
    [
        (b"data: a\n\n", b"data: a\n\ndata: [DONE]\n\n"),
        (b"data: a", b"data: a\n\ndata: [DONE]\n\n"),
        (b"", b"data: [DONE]\n\n"),
        (b"data: a\n\ndata: [DONE]\n\n", b"data: a\n\ndata: [DONE]\n\n"),
        (b'data: {"error":{"message":"x"}}\n\n', b'data: {"error":{"message":"x"}}\n\n'),
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
async def test_a_missing_done_is_added(start: Starter, stream: bytes, seen: bytes, path: str) -> None:
    world = await start(answers(chunked(EVENTS, *([stream] if stream else []))))

    reply = await world.post(path, BODY)

    assert (reply.body, reply.complete) == (seen, True)


async def test_other_streams_have_an_end_of_their_own(start: Starter) -> None:
    stream = b"event: response.completed\ndata: {}\n\n"
    world = await start(answers(chunked(EVENTS, stream)), capabilities=["responses"])

    assert (await world.post("/v1/responses", BODY)).body == stream


async def test_a_stream_with_a_length_may_still_get_its_done(start: Starter) -> None:
    world = await start(answers(ok(b"data: a\n\n", EVENTS)))

    assert (await world.post(CHAT, BODY)).body == b"data: a\n\ndata: [DONE]\n\n"


async def test_silence_is_filled_between_events_only(start: Starter) -> None:
    half, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(connection: Connection) -> None:
        await half.wait()
        await connection.send(as_chunk(b"data: "))
        await go_on.wait()
        await connection.send(as_chunk(b"a\n\ndata: [DONE]\n\n") + b"0\r\n\r\n")

    world = await start(then(chunked(EVENTS, end=False), slowly), settings=GatewaySettings(heartbeat=0.02))
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY))

    await client.head()
    assert await client.chunk() == b": ping\n\n"
    assert await client.chunk() == b": ping\n\n"
    half.set()
    while (chunk := await client.chunk()) == b": ping\n\n":
        pass
    assert chunk == b"data: "
    with pytest.raises(TimeoutError):  # several heartbeats long
        async with asyncio.timeout(0.15):
            await client.reader.readline()
    go_on.set()
    rest = b""
    while chunk := await client.chunk():
        rest += chunk
    assert rest.replace(b": ping\n\n", b"") == b"a\n\ndata: [DONE]\n\n"


@pytest.mark.parametrize("first", [b"data: a\n", b"data: a\n\n", b'data: {"half'])
async def test_a_stream_that_breaks_ends_with_one_error_event(
    start: Starter, caplog: pytest.LogCaptureFixture, first: bytes
) -> None:  # H05
    world = await start(then(chunked(EVENTS, first, end=False), reset))

    reply = await world.post(CHAT, BODY)

    *before, last = reply.body.removesuffix(b"\n\n").split(b"\n\n")
    assert json.loads(last.removeprefix(b"data: "))["error"]["type"] == "network_error"
    assert b"\n\n".join(before).startswith(first.rstrip(b"\n"))
    assert b"[DONE]" not in reply.body
    assert not reply.complete
    assert world.activities.tail(1)[0]["ending"] == "engine_broke_off"
    assert caplog.text.count("broke off") == 1
    assert "Traceback" not in caplog.text


async def test_a_stream_that_breaks_in_a_chunk_is_no_different(start: Starter) -> None:  # H05
    world = await start(answers(chunked(EVENTS, end=False) + b"20\r\ndata: a\n\n"))

    reply = await world.post(CHAT, BODY)

    assert b'"network_error"' in reply.body
    assert b"[DONE]" not in reply.body


async def test_the_cause_of_death_is_told(start: Starter) -> None:  # H05
    async def die(connection: Connection) -> None:
        await wait_until_read(connection)
        connection.die(ExitStatus(signal=9))
        connection.reset()

    world = await start(then(chunked(EVENTS, b"data: a\n\n", end=False), die))

    assert b"killed by signal 9 (SIGKILL)" in (await world.post(CHAT, BODY)).body


async def test_after_done_a_broken_connection_is_nobodys_loss(start: Starter) -> None:
    world = await start(then(chunked(EVENTS, b"data: a\n\ndata: [DONE]\n\n", end=False), reset))

    reply = await world.post(CHAT, BODY)

    assert (reply.body, reply.complete) == (b"data: a\n\ndata: [DONE]\n\n", True)


@pytest.mark.parametrize("breaks", [reset, wait_until_read])
@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nContent-Length: 100\r\n\r\n12345",
        chunked("audio/mpeg", b"12345", end=False),
        chunked("audio/mpeg", b"12345", end=False) + b"20\r\nabc",
    ],
)
async def test_other_bodies_that_break_are_seen_to_break(
    start: Starter, caplog: pytest.LogCaptureFixture, sent: bytes, breaks: Act
) -> None:  # H05
    """By a reset, and by the plain end of the connection."""
    world = await start(then(sent, breaks))

    reply = await world.post(CHAT, BODY)

    assert reply.status == 200
    assert not reply.complete
    assert world.activities.tail(1)[0]["ending"] == "engine_broke_off"
    assert caplog.text.count("broke off") == 1
    assert "Traceback" not in caplog.text


async def test_an_old_client_sees_it_too(start: Starter) -> None:  # H05
    world = await start(then(chunked("audio/mpeg", b"12345", end=False), reset))
    client = await world.client()
    await client.send(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 13\r\n\r\n" + BODY)
    assert (await client.head()).value("Transfer-Encoding") is None

    with pytest.raises(ConnectionResetError):
        await client.reader.read()


async def test_a_slow_reader_slows_the_engine(start: Starter) -> None:
    sent = 0

    async def floods(connection: Connection) -> None:
        nonlocal sent
        await connection.request()
        await connection.send(chunked("audio/mpeg", end=False))
        while True:
            await connection.send(as_chunk(b"x" * 100_000))
            sent += 100_000

    world = await start(floods)
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY))
    await client.head()

    seen = -1
    while seen != sent:  # it goes on until every buffer on the way is full
        seen = sent
        await asyncio.sleep(0.1)

    assert sent < 100_000_000


@pytest.mark.parametrize("breaks", [reset, wait_until_read])
async def test_a_json_answer_that_breaks_is_an_error_yet(start: Starter, breaks: Act) -> None:  # H05
    world = await start(
        then(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{", breaks)
    )

    reply = await world.post(CHAT, BODY)

    assert (reply.status, reply.error["type"]) == (502, "network_error")


@pytest.mark.parametrize("content_type", [EVENTS, "audio/mpeg"])
async def test_an_answer_that_only_its_end_ends_is_whole_if_the_engine_lives(
    start: Starter, content_type: str
) -> None:
    head = f"HTTP/1.0 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode()
    world = await start(answers(head + b"data: a\n\ndata: [DONE]\n\n"))

    reply = await world.post(CHAT, BODY)

    assert (reply.body, reply.complete) == (b"data: a\n\ndata: [DONE]\n\n", True)


@pytest.mark.parametrize("content_type", [EVENTS, "audio/mpeg"])
async def test_an_answer_that_only_its_end_ends_is_cut_if_the_engine_died(
    start: Starter, content_type: str
) -> None:
    async def die(connection: Connection) -> None:
        connection.die(ExitStatus(code=3))

    head = f"HTTP/1.0 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode()
    world = await start(then(head + b"data: a\n\n", die))

    reply = await world.post(CHAT, BODY)

    assert not reply.complete
    assert b"[DONE]" not in reply.body


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200",
        b"\x15\x03\x01\x00\x02\x02",
        b"HTTP/9.9 banana\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_an_engine_that_breaks_off_before_its_answer(start: Starter, sent: bytes) -> None:  # H37
    world = await start(answers(sent))

    reply = await world.post(CHAT, BODY)

    assert (reply.status, reply.error["type"]) == (502, "network_error")
    assert "test-engine broke off" in reply.error["message"]


async def test_an_engine_that_dies_before_its_answer_tells_how(start: Starter) -> None:
    async def dies(connection: Connection) -> None:
        await connection.request()
        connection.die(ExitStatus(signal=11))

    world = await start(dies)

    reply = await world.post(CHAT, BODY)

    assert reply.status == 502
    assert "killed by signal 11 (SIGSEGV)" in reply.error["message"]


@pytest.mark.parametrize("status", [400, 404, 422, 429, 500, 503])
async def test_an_engines_error_keeps_its_status_and_text(start: Starter, status: int) -> None:  # H47
    text = b"internal: CUDA OOM"
    head = f"HTTP/1.1 {status} X\r\nContent-Type: text/plain\r\nRetry-After: 7\r\n"
    world = await start(answers(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text))

    reply = await world.post(CHAT, BODY)

    assert reply.status == status
    assert reply.error["message"] == "internal: CUDA OOM"
    assert reply.error["details"]["backend"] == "test-engine"
    assert reply.values("Content-Type") == ["application/json; charset=utf-8"]
    assert reply.value("Retry-After") == "7"


async def test_a_compressed_error_is_read_too(start: Starter) -> None:  # H47
    packed = gzip.compress(b'{"error":{"message":"no","type":"t"}}')
    sent = f"HTTP/1.1 500 X\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    world = await start(answers(sent.encode() + packed))

    assert (await world.post(CHAT, BODY, {"Accept-Encoding": "gzip"})).error["message"] == "no"


async def test_an_endless_error_is_cut(start: Starter) -> None:  # H47
    async def endless(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await connection.send(as_chunk(b"x" * 10_000))

    world = await start(endless)

    assert len((await world.post(CHAT, BODY)).error["message"]) == 2000


@pytest.mark.parametrize("status", [401, 403, 407])
async def test_an_engines_login_is_not_the_clients(start: Starter, status: int) -> None:  # H37
    said = b'{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}'
    head = f"HTTP/1.1 {status} X\r\nWWW-Authenticate: Basic\r\nContent-Length: {len(said)}\r\n\r\n"
    world = await start(answers(head.encode() + said))

    reply = await world.post(CHAT, BODY)

    assert reply.status == 502
    assert reply.error == {
        "message": (
            f"test-engine refused the server's request with status {status}: Invalid API Key. Clients' "
            "keys do not reach an engine; if it wants one, see the 'args' and 'env' of its manifest"
        ),
        "type": "backend_error",
        "status_code": 502,
        "details": {"backend": "test-engine", "status_code": status},
    }
    assert reply.value("WWW-Authenticate") is None
    assert reply.value("x-should-retry") == "false"


@pytest.mark.parametrize(("status", "said"), [(500, None), (501, "false"), (503, None)])
async def test_what_an_engine_cannot_do_is_not_asked_again(
    start: Starter, status: int, said: str | None
) -> None:
    world = await start(answers(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode()))

    reply = await world.post(CHAT, BODY)

    assert (reply.status, reply.value("x-should-retry")) == (status, said)


@pytest.mark.parametrize("begun", [False, True])
async def test_an_unload_ends_what_is_under_way_with_its_reason(start: Starter, begun: bool) -> None:  # L03
    world = await start(then(chunked(EVENTS, b"data: a\n\n", end=False) if begun else b"", Connection.gone))
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY))
    if begun:
        await client.head()
        assert await client.chunk() == b"data: a\n\n"
    await world.until(lambda: bool(world.driver.received))

    unloading = asyncio.create_task(world.post("/v1/unload", b"{}"))

    if begun:
        assert b'"engine_stopped"' in await client.chunk()
    else:
        reply = await client.reply()
        assert (reply.status, reply.error["type"]) == (503, "engine_stopped")
        assert reply.value("Retry-After")
    assert (await unloading).status == 200


# --- what an engine says of this machine ------------------------------------------------------------------

PATHS = {"linux": {"cpu": {"command": "/opt/engine", "args": ["-m", "/srv/m.gguf", "--port", "{port}"]}}}


@pytest.mark.parametrize("broken", [False, True])
async def test_an_error_in_a_stream_is_scrubbed_and_renamed(start: Starter, broken: bool) -> None:
    words = b'data: {"model":"m","c":"/srv/m.gguf"}\n\n'
    error = b'data: {"error":{"message":"no /srv/m.gguf","model":"x"}}\n\n'
    if broken:
        script = then(chunked(EVENTS, words, error[:-2], end=False), reset)
    else:
        script = answers(chunked(EVENTS, words, error[:20], error[20:]))
    world = await start(script, platforms=PATHS)

    reply = await world.post(CHAT, BODY)

    first, second, *rest = reply.body.split(b"\n\n")
    assert (first + b"\n\n", second) == (words, error[:-2].replace(b"/srv/m.gguf", "…/m.gguf".encode()))
    assert (b"network_error" in rest[0]) is broken


@pytest.mark.parametrize("stream", [False, True])
async def test_the_last_lines_of_a_failed_load_are_scrubbed(start: Starter, stream: bool) -> None:
    world = await start(answers(), platforms=PATHS, output=["no /srv/m.gguf", "api_key=abc"])
    world.driver.ready.clear()
    path, body = ("/v1/load", {"model_name": "m", "stream": True}) if stream else (CHAT, {"model": "m"})
    asking = asyncio.create_task(world.post(path, body))
    await world.until(lambda: bool(world.driver.engines) and world.driver.engines[0].started)
    world.driver.engines[0].die(ExitStatus(code=1))

    reply = await asking
    assert b"/srv" not in reply.body
    assert b'log_tail": ["no \\u2026/m.gguf"' in reply.body
