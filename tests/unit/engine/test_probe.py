"""One question over a real socket, to servers that answer with any bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.vocabulary import ProbeType
from lemonpod.engine import probe as probe_module
from lemonpod.engine.probe import ask
from lemonpod.launch.plan import TcpEndpoint
from tests.waiting import unused_port


@asynccontextmanager
async def server(answer: bytes, *, keep_open: bool = False) -> AsyncIterator[tuple[TcpEndpoint, list[bytes]]]:
    """Says `answer` to every request; yields where, and the requests that came."""
    requests: list[bytes] = []
    connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        with suppress(OSError, EOFError):
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            if keep_open:
                await reader.read()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield TcpEndpoint(host="127.0.0.1", port=listener.sockets[0].getsockname()[1]), requests
    finally:
        listener.close()
        for writer in connections:
            writer.transport.abort()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000,
    ],
)
@pytest.mark.parametrize("keep_open", [False, True])
async def test_the_status_decides_and_the_body_does_not(answer: bytes, keep_open: bool) -> None:
    async with server(answer, keep_open=keep_open) as (endpoint, requests):
        assert await ask(endpoint, HealthProbe(endpoint="/health?a=b c")) is None
    assert requests == [
        f"GET /health?a=b%20c HTTP/1.1\r\nHost: 127.0.0.1:{endpoint.port}\r\n"
        "Accept: */*\r\nConnection: close\r\n\r\n".encode()
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 503 Loading\r\n\r\n", "got status 503, not 200"),
        (b"HTTP/1.1 302 Found\r\nLocation: /ok\r\n\r\n", "got status 302, not 200"),
        (b"", "got no HTTP answer"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "got no HTTP answer"),
        (b"HTTP/1.1 OK\r\n", "got no HTTP answer"),
        (b"HTTP/1.1 2\xb2\xb3 OK\r\n", "got no HTTP answer"),
        (b"x" * 100_000, "got no HTTP answer"),
    ],
)
async def test_anything_else_is_told(answer: bytes, message: str) -> None:
    async with server(answer) as (endpoint, _):
        told = await ask(endpoint, HealthProbe())
    assert told == f"GET {endpoint.url}/health {message}"


async def test_a_manifest_cannot_write_headers_into_the_request() -> None:
    async with server(b"HTTP/1.1 200 OK\r\n\r\n") as (endpoint, requests):
        await ask(endpoint, HealthProbe(endpoint="/\r\nX-Forged: 1\r\n"))
    assert b"\nX-Forged" not in requests[0]


async def test_a_silent_server_costs_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:  # L09
    monkeypatch.setattr(probe_module, "ANSWER_TIMEOUT", 0.1)
    async with server(b"HTTP/1.1 ", keep_open=True) as (endpoint, _):
        told = await ask(endpoint, HealthProbe())
        assert told == f"{endpoint.url} took the connection and did not answer within 0.1 s"
        assert await ask(endpoint, HealthProbe(type=ProbeType.TCP)) is None


async def test_a_closed_port_is_told() -> None:
    endpoint = TcpEndpoint(host="127.0.0.1", port=unused_port())
    for kind in (ProbeType.HTTP, ProbeType.TCP):
        assert await ask(endpoint, HealthProbe(type=kind)) == (
            f"nothing takes connections at 127.0.0.1:{endpoint.port}"
        )
