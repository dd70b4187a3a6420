"""What an engine gets to see of a request."""

# Long because it is the list of what clients do to a request, read against one scripted engine.

from __future__ import annotations

import asyncio
import gzip
import os
import zlib

import pytest

from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import as_chunk, message, ok
from tests.unit.gateway.world import Starter

CHAT = "/v1/chat/completions"
BODY = b'{"model":"user.m","messages":[]}'


async def answer(connection: Connection) -> None:
    await connection.request()
    await connection.send(ok(b"{}"))


async def test_the_body_arrives_byte_for_byte_but_for_the_models_id(start: Starter) -> None:
    world = await start(answer)
    body = (
        b'{ "seed":12345678901234567890123,\r\n"model" :\t"m:latest","x":"\\ud800\\u00e9\xc3\xa9","t":1e999 }'
    )

    assert (await world.post(CHAT, body)).status == 200

    assert world.driver.received[0].body == body.replace(b'"m:latest"', b'"user.m"')


async def test_the_query_stays_as_it_is(start: Starter) -> None:  # H17
    world = await start(answer)
    query = "api-version=2024-10-21&x=a%2Bb&x=c+d&empty=&&y&%7e~|{}[]^'\"<>"

    assert (await world.post(f"{CHAT}?{query}", BODY)).status == 200

    assert world.driver.received[0].target == f"{CHAT}?{query}"


async def test_a_query_with_raw_bytes_is_refused(start: Starter) -> None:
    world = await start(answer)

    reply = await world.raw(
        b"POST /v1/chat/completions?x=\xff HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
    )

    assert reply.status == 400
    assert not world.driver.received


@pytest.mark.parametrize(
    "target",
    [
        "/v1/slots-allowed/%2e%2e/%2e%2e/slots",
        "/v1/chat/../slots",
        "/v1/chat/completions/../../slots",
        "/v1/%2e%2e/v1/slots",
        "/v1/models/%2e%2e/slots",
        "/v1/models/..%2fslots",
        "/v1//slots",
        "//v1/slots",
        "/v1/slots/",
        "/v1/slots%2F",
        "/v1/slots;x",
    ],
)
async def test_a_path_is_what_it_says_or_nothing(start: Starter, target: str) -> None:  # H15
    world = await start(answer, capabilities=["chat_completion", "slots"])

    assert (await world.get(target)).status == 404
    assert not world.driver.received


async def test_an_escaped_letter_is_that_letter_for_the_gate_too(start: Starter) -> None:  # H15
    world = await start(answer)

    assert (await world.get("/v1/%73lots?model=m")).error["type"] == "unsupported_operation"
    assert not world.driver.received


@pytest.mark.parametrize(
    "target",
    [
        "/v1/%2e%2e/internal/shutdown",
        "/v1/models/../../internal/shutdown",
        "/live/..%2finternal/shutdown",
        "/./internal/shutdown",
        "/%69nternal/shutdown",
        "/internal%2fshutdown",
        "//internal/shutdown",
    ],
)
@pytest.mark.parametrize("key", ["", "Bearer k"])
async def test_no_way_round_leads_past_the_admins_key(start: Starter, target: str, key: str) -> None:  # H15
    world = await start(answer, settings=GatewaySettings(api_key="k", admin_api_key="admin"))

    reply = await world.request("POST", target, {"Authorization": key})

    assert reply.status in {401, 404, 405}
    assert not world.shut_down.is_set()


async def test_expect_is_answered_here_and_not_passed_on(start: Starter) -> None:  # H07
    world = await start(answer)
    client = await world.client()
    await client.send(message("POST", CHAT, {"Expect": "100-continue", "Content-Length": str(len(BODY))}))

    assert await client.reader.readline() == b"HTTP/1.1 100 Continue\r\n"
    await client.reader.readline()
    await client.send(BODY)

    assert (await client.reply()).status == 200
    assert world.driver.received[0].body == BODY
    assert world.driver.received[0].value("Expect") is None


async def test_hop_by_hop_headers_and_secrets_stay_here(start: Starter) -> None:  # H09
    world = await start(answer)
    sent = {
        "Connection": "close, X-Secret",
        "X-Secret": "1",
        "TE": "trailers",
        "Proxy-Authorization": "Basic eA==",
        "Authorization": "Bearer k",
        "Cookie": "sid=1",
        "X-Api-Key": "k",
        "User-Agent": "curl",
        "X-Request-Id": "7",
    }

    assert (await world.post(CHAT, BODY, sent)).status == 200

    seen = {name.lower() for name, _ in world.driver.received[0].headers}
    assert seen == {
        *("accept-encoding", "content-length", "content-type", "host"),
        *("user-agent", "x-request-id"),
    }


async def test_a_header_that_is_not_utf8_does_no_harm(start: Starter) -> None:
    world = await start(answer)

    assert (await world.post(CHAT, BODY, {"X-Name": "caf\xe9", "X-Other": "1"})).status == 200
    assert world.driver.received[0].value("X-Other") == "1"


@pytest.mark.parametrize("sent", [None, "gzip, br;q=0.5"])
async def test_the_engine_is_asked_for_what_the_client_accepts(
    start: Starter, sent: str | None
) -> None:  # H01
    world = await start(answer)

    await world.post(CHAT, BODY, {"Accept-Encoding": sent} if sent else None)

    assert world.driver.received[0].values("Accept-Encoding") == [sent or "identity"]


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ("application/json; charset=utf-8", "application/json; charset=utf-8"),
        ("application/x-www-form-urlencoded", "application/json"),
        ("", "application/json"),
    ],
)
async def test_a_json_body_is_called_json(start: Starter, sent: str, seen: str) -> None:
    world = await start(answer)

    await world.post(CHAT, BODY, {"Content-Type": sent})

    assert world.driver.received[0].values("Content-Type") == [seen]


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(BODY)),
        ("GZip", gzip.compress(BODY[:9]) + gzip.compress(BODY[9:])),
        ("deflate", zlib.compress(BODY)),
        ("deflate", zlib.compress(BODY)[2:-4]),
        ("identity", BODY),
    ],
)
async def test_a_compressed_body_arrives_inflated(start: Starter, coding: str, packed: bytes) -> None:  # H23
    world = await start(answer)

    assert (await world.post(CHAT, packed, {"Content-Encoding": coding})).status == 200

    received = world.driver.received[0]
    assert received.body == BODY
    assert received.value("Content-Encoding") is None
    assert received.values("Content-Length") == [str(len(BODY))]


async def test_a_bomb_is_measured_inflated(start: Starter) -> None:  # H23
    world = await start(answer, settings=GatewaySettings(max_body=10_000))
    bomb = gzip.compress(b'{"model":"m","x":"' + b"0" * 50_000_000 + b'"}')

    reply = await world.post(CHAT, bomb, {"Content-Encoding": "gzip"})

    assert reply.status == 413
    assert "10000 bytes" in reply.error["message"]
    assert not world.driver.received


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"not gzip at all"),
        ("gzip", gzip.compress(BODY)[:-20]),
        ("deflate", b"\x00\x01\x02"),
        ("deflate", zlib.compress(BODY) + b"x"),
        ("snappy", BODY),
        ("br", b"\x0b\x01\x80{}\x03"),
        ("zstd", b"\x28\xb5\x2f\xfd"),
        ("gzip, gzip", gzip.compress(gzip.compress(BODY))),
    ],
)
async def test_a_body_that_cannot_be_inflated_is_refused(
    start: Starter, caplog: pytest.LogCaptureFixture, coding: str, body: bytes
) -> None:  # H23
    world = await start(answer)

    reply = await world.post(CHAT, body, {"Content-Encoding": coding})

    assert reply.status == 400
    assert isinstance(reply.json["error"], str)
    assert "\n" not in reply.json["error"]
    assert not world.driver.received
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + BODY,
        b'{"model":"a","model":"b"}',
        b'{"model":"m","temperature":NaN}',
        b'{"model":"\\ud800"}',
        b'{"model":"caf\xe9"}',
        b"[" * 100_000,
        b'{"x":' + b"[" * 100_000,
        b'{"model":7}',
        b'{"model":["m"]}',
        b"null",
        b"",
        b"model=m",
    ],
)
async def test_a_body_that_engines_might_read_differently_is_refused(
    start: Starter, body: bytes
) -> None:  # H21
    world = await start(answer)

    reply = await world.post(CHAT, body, {"Content-Length": str(len(body))})

    assert reply.status == 400
    assert isinstance(reply.error, str)
    assert not world.driver.received


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/load", "/v1/unload", "/v1/pull", "/v1/delete", "/v1/params"),
        *("/v1/models/m/options", "/internal/aliases", "/internal/pin"),
        *(
            "/api/chat",
            "/api/generate",
            "/api/embed",
            "/api/show",
            "/v1/messages",
            "/v1/messages/count_tokens",
        ),
    ],
)
@pytest.mark.parametrize(
    "member",
    [
        b'"model":"m"',
        b'"x":NaN',
        b'"x":1e999',
        b'"x":"\\ud800"',
        b'"x":"caf\xe9"',
        b'"x":' + b"9" * 5000,
        b'"x":' + b"[" * 100_000,
    ],
    ids=["twice", "nan", "endless", "half", "latin-1", "digits", "deep"],
)
async def test_what_is_understood_here_is_refused_too(
    start: Starter, caplog: pytest.LogCaptureFixture, path: str, member: bytes
) -> None:  # H21
    """By the routes that no engine answers, or only in other words."""
    world = await start(answer, capabilities=["chat_completion", "embeddings"])

    reply = await world.post(path, b'{"model":"m",' + member + b"}")

    assert reply.status == 400
    assert b"Invalid JSON in request body" in reply.body
    assert "Traceback" not in caplog.text
    assert not world.driver.engines


async def test_chunks_extensions_and_trailers_become_one_length(start: Starter) -> None:  # H43
    world = await start(answer)
    head = message("POST", CHAT, {"Transfer-Encoding": "chunked", "Trailer": "X"})

    reply = await world.raw(
        head + b"5;ext=1\r\n" + BODY[:5] + b"\r\n" + as_chunk(BODY[5:]) + b"0\r\nX: trailer\r\n\r\n"
    )

    assert reply.status == 200
    received = world.driver.received[0]
    assert received.body == BODY
    assert received.values("Content-Length") == [str(len(BODY))]
    assert not received.values("Transfer-Encoding") + received.values("Trailer") + received.values("X")


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: -2\r\n",
        b"Content-Length: +2\r\n",
        b"Content-Length: 0x2\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Content-Length : 2\r\n",
    ],
)
async def test_two_ways_to_read_a_length_are_one_too_many(start: Starter, headers: bytes) -> None:  # H43
    world = await start(answer)

    reply = await world.raw(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n2\r\n{}\r\n0\r\n\r\n"
    )

    assert reply.status == 400
    assert not world.driver.received


async def test_a_body_that_stops_coming_is_given_up(start: Starter) -> None:  # H43
    world = await start(answer, settings=GatewaySettings(body_timeout=0.05))

    reply = await world.raw(message("POST", CHAT, {"Content-Length": "20"}, b"{}"))

    assert reply.status == 408
    assert reply.error["type"] == "request_timeout"
    assert not world.driver.received


async def test_an_absolute_target_is_its_path(start: Starter) -> None:  # H43
    world = await start(answer)

    assert (await world.post(f"http://elsewhere.example{CHAT}?a=1", BODY)).status == 200
    assert world.driver.received[0].target == f"{CHAT}?a=1"


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_refused_with_the_limit(start: Starter, chunked: bool) -> None:  # H43
    world = await start(answer, settings=GatewaySettings(max_body=100))
    headers = {"Transfer-Encoding": "chunked"} if chunked else {}
    body = as_chunk(b"x" * 101) if chunked else b"x" * 101

    reply = await world.raw(message("POST", CHAT, headers, body))

    assert reply.status == 413
    assert "100 bytes" in reply.error["message"]
    assert "max_body" in reply.error["message"]


async def test_a_big_body_passes_whole(start: Starter) -> None:
    world = await start(answer)
    body = b'{"model":"m","image":"' + b"A" * (5 << 20) + b'"}'

    assert (await world.post(CHAT, body)).status == 200
    assert world.driver.received[0].body == body.replace(b'"m"', b'"user.m"')


async def test_a_connection_that_ends_when_it_is_used_again_costs_nothing(start: Starter) -> None:  # H11
    async def resets_when_reused(connection: Connection) -> None:
        await connection.request()
        await connection.send(ok(b"{}"))
        if await connection.reader.read(1):
            connection.reset()

    world = await start(resets_when_reused)

    assert [(await world.post(CHAT, BODY)).status for _ in range(3)] == [200, 200, 200]


async def test_one_clients_cookie_is_not_anothers(start: Starter) -> None:  # H33
    async def sets_a_cookie(connection: Connection) -> None:
        await connection.request()
        await connection.send(ok(b"{}", "application/json", "Set-Cookie: sid=alice; Path=/"))

    world = await start(sets_a_cookie)

    first = await world.post(CHAT, BODY)
    await world.post(CHAT, BODY, {"Cookie": "b=2"})

    assert first.value("Set-Cookie") is None
    assert world.driver.received[1].value("Cookie") is None


async def test_a_proxy_in_the_environment_is_not_asked(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:  # H35
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert os.environ["HTTP_PROXY"]
    world = await start(answer)

    assert (await world.post(CHAT, BODY)).status == 200


@pytest.mark.parametrize("prefix", ["/api/v0", "/api/v1", "/v0", "/v1"])
async def test_every_prefix_leads_to_the_same_engine_path(start: Starter, prefix: str) -> None:
    world = await start(answer)

    assert (await world.post(f"{prefix}/chat/completions", BODY)).status == 200
    assert world.driver.received[0].target == "/v1/chat/completions"


async def test_a_pipelined_second_request_is_answered_too(start: Starter) -> None:
    world = await start(answer)
    client = await world.client()
    await client.send(message("POST", CHAT, {}, BODY) + message("GET", "/live"))

    assert (await client.reply()).status == 200
    assert (await client.reply()).json == {"status": "ok"}


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
async def test_an_offer_to_upgrade_changes_nothing(start: Starter, upgrade: str) -> None:
    world = await start(answer)
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": upgrade, "HTTP2-Settings": "AAM"}

    assert (await world.post(CHAT, BODY, offer)).status == 200

    received = world.driver.received[0]
    assert received.body == BODY
    assert not received.values("Upgrade") + received.values("HTTP2-Settings")


async def test_long_headers_and_queries_pass(start: Starter) -> None:
    async def long_header(connection: Connection) -> None:
        await connection.request()
        await connection.send(ok(b"{}", "application/json", "X-Long: " + "x" * 30_000))

    world = await start(long_header)

    reply = await world.post(f"{CHAT}?x={'y' * 30_000}", BODY, {"X-Token": "z" * 30_000})

    assert len(reply.value("X-Long") or "") == 30_000
    assert len(world.driver.received[0].value("X-Token") or "") == 30_000


async def test_an_old_client_is_served(start: Starter) -> None:
    world = await start(answer)

    reply = await world.raw(
        b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
    )

    assert (reply.status, reply.body) == (200, b"{}")


async def test_many_small_pieces_make_one_body(start: Starter) -> None:
    world = await start(answer)
    client = await world.client()
    for byte in message("POST", CHAT, {}, BODY):
        await client.send(bytes([byte]))
        await asyncio.sleep(0)

    assert (await client.reply()).status == 200
    assert world.driver.received[0].body == BODY
