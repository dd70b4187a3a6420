"""A proxy as one writes it with aiohttp: `python -m tests.bench.relay.usual_proxy PORT ENGINE_URL [uvloop]`.

`web.run_app` runs it on asyncio's own loop, as in aiohttp's documentation, unless a third word asks for
uvloop. It is spared what costs most where it is done: no access log, no session for each request.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Final

import aiohttp
import uvloop
from aiohttp import web

HOP_BY_HOP: Final = frozenset({"connection", "host", "keep-alive", "transfer-encoding"})
ENGINE: Final = web.AppKey("engine", str)
UVLOOP: Final = "uvloop"
SESSION: Final = web.AppKey("session", aiohttp.ClientSession)


async def proxy(request: web.Request) -> web.StreamResponse:
    headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
    url = request.app[ENGINE] + request.raw_path
    # An upload passes as it comes; a short body is simply read.
    body = request.content if (request.content_length or 0) > 1 << 20 else await request.read()
    session = request.app[SESSION]
    async with session.request(request.method, url, headers=headers, data=body) as answer:
        response = web.StreamResponse(status=answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in HOP_BY_HOP:
                response.headers[name] = value
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response


async def session(app: web.Application) -> AsyncIterator[None]:
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=timeout, auto_decompress=False
    ) as app[SESSION]:
        yield


def main() -> None:
    port, engine, *more = sys.argv[1:]
    app = web.Application(client_max_size=1 << 30)
    app[ENGINE] = engine
    app.cleanup_ctx.append(session)
    app.router.add_route("*", "/{path:.*}", proxy)
    loop = uvloop.new_event_loop() if more == [UVLOOP] else None
    web.run_app(app, host="127.0.0.1", port=int(port), access_log=None, print=None, backlog=2048, loop=loop)


if __name__ == "__main__":
    main()
