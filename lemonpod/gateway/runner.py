"""Runs the application on an address."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, cast

from aiohttp import web

from lemonpod.errors import ConfigError
from lemonpod.gateway import keys
from lemonpod.gateway.data.edge import Edge
from lemonpod.gateway.settings import GatewaySettings

# Ends connections that send nothing, or never the end of their headers. Clients keep idle ones for less.
_IDLE_TIMEOUT: Final = 75.0


@asynccontextmanager
async def running(app: web.Application, host: str, port: int) -> AsyncIterator[tuple[str, int]]:
    """Serve until the block ends; yields the address, whose port is the chosen one where `port` is 0.

    At the end requests still running are cancelled: whoever ends the server has drained the engines first.
    """
    runner = web.AppRunner(
        app,
        handle_signals=False,
        handler_cancellation=True,  # a client that leaves ends its load, even before the first byte
        shutdown_timeout=0.1,
    )
    await runner.setup()
    edge = Edge(
        app.get(keys.RELAY),
        cast(web.Server, runner.server),
        app.get(keys.SETTINGS, GatewaySettings()),
        idle_timeout=_IDLE_TIMEOUT,
    )
    try:
        try:
            address = await edge.listen("127.0.0.1" if host == "localhost" else host, port)
        except OSError as error:
            raise _cannot_listen(host, port, error) from error
        if host == "localhost":
            # Some clients try this address first; not every machine has it.
            with suppress(OSError):
                await edge.listen("::1", address[1])
        yield address
    finally:
        edge.close_door()
        await runner.cleanup()
        edge.close()


def _cannot_listen(host: str, port: int, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port {port} on {host} is taken by another program",
            hint="end that one, or choose another with --port",
        )
    if error.errno == errno.EACCES:
        return ConfigError(f"port {port} needs privileges", hint="choose one from 1024 up with --port")
    return ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}")
