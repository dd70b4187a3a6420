"""An engine is asked over a real socket to give memory back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from lemonpod.engine import downsize as module
from lemonpod.engine.downsize import downsize
from lemonpod.errors import EngineError
from lemonpod.launch.plan import TcpEndpoint
from tests.waiting import unused_port


@pytest.fixture
async def asked() -> list[object]:
    return []


@pytest.fixture
async def endpoint(asked: list[object]) -> AsyncIterator[TcpEndpoint]:
    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(await request.json())
        match request.path:
            case "/text":
                return web.Response(text="done")
            case "/error":
                return web.json_response({"error": "it is busy"})
            case "/moved":
                return web.Response(status=307, headers={"Location": "/fine"})
            case "/silent":
                await asyncio.sleep(60)
        return web.json_response({"ok": True})

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    async with TestServer(app) as server:
        yield TcpEndpoint(host="127.0.0.1", port=server.port or 0)


async def test_it_is_asked_with_an_empty_object(endpoint: TcpEndpoint, asked: list[object]) -> None:
    await downsize(endpoint, "/fine")
    await downsize(endpoint, "/text")
    assert asked == [{}, {}]


@pytest.mark.parametrize(
    ("path", "message"),
    [("/error", "it is busy$"), ("/moved", "got status 307"), ("/silent", "no answer in")],
)
async def test_why_it_did_not_work(
    endpoint: TcpEndpoint, path: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    with pytest.raises(EngineError, match=message):
        await downsize(endpoint, path)


async def test_nobody_is_there() -> None:
    with pytest.raises(EngineError, match=r"POST http://127\.0\.0\.1:"):
        await downsize(TcpEndpoint(host="127.0.0.1", port=unused_port()), "/x")
