"""Listening, and not being able to."""

from __future__ import annotations

import logging
import socket

import pytest
from aiohttp import web

from lemonpod.errors import ConfigError
from lemonpod.gateway.runner import running
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import Client, message
from tests.unit.gateway.world import Starter


async def test_a_free_port_is_chosen_and_told() -> None:
    async with running(web.Application(), "127.0.0.1", 0) as (host, port):
        assert host == "127.0.0.1"
        client = await Client.connect(port)
        await client.send(message("GET", "/"))
        assert (await client.reply()).status == 404
        client.abort()
    with pytest.raises(ConnectionRefusedError):
        await Client.connect(port)


async def test_localhost_is_found_by_number_too() -> None:
    async with running(web.Application(), "localhost", 0) as (host, port):
        assert host == "127.0.0.1"
        (await Client.connect(port)).abort()


async def test_a_taken_port_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is taken") as caught:
            async with running(web.Application(), "127.0.0.1", port):
                pass

    assert "--port" in str(caught.value)


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
async def test_an_address_that_is_not_ours_is_a_clear_error(host: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot listen on {host}:1"):
        async with running(web.Application(), host, 1):
            pass


async def test_neither_bodies_nor_keys_are_logged(start: Starter, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def breaks_off(connection: Connection) -> None:
        await connection.request()

    world = await start(breaks_off)
    await world.post(
        "/v1/chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": "my secret"}]},
        {"Authorization": "Bearer s3cr3t"},
    )
    await world.post("/v1/chat/completions", b'{"model":"m","content":"my secret"')

    assert caplog.records
    assert "my secret" not in caplog.text
    assert "s3cr3t" not in caplog.text


async def test_a_request_that_is_no_http_leaves_no_text_in_the_log(
    start: Starter, caplog: pytest.LogCaptureFixture
) -> None:
    async def unused(connection: Connection) -> None:
        await connection.request()

    world = await start(unused)

    reply = await world.raw(b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer s3cr3t\x01\r\n\r\n")

    assert reply.status == 400
    assert "it is not HTTP" in caplog.text
    assert "s3cr3t" not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("sent", [b"", b"GET /live HTTP/1.1\r\nHost: a\r\nX-Slow: "])
async def test_a_connection_that_says_nothing_is_closed(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:  # H41
    monkeypatch.setattr("lemonpod.gateway.runner._IDLE_TIMEOUT", 0.05)
    async with running(web.Application(), "127.0.0.1", 0) as (_, port):
        client = await Client.connect(port)
        await client.send(sent)

        assert await client.reader.read() == b""

        client.abort()


async def test_the_end_of_the_server_does_not_wait_for_its_clients(start: Starter) -> None:
    async def silent(connection: Connection) -> None:
        await connection.request()
        await connection.gone()

    world = await start(silent)
    client = await world.client()
    await client.send(message("POST", "/v1/chat/completions", {}, b'{"model":"m"}'))
    await world.until(lambda: bool(world.driver.received))
    # The fixture ends the gateway with this request still open; the suite's timeout is the test.
