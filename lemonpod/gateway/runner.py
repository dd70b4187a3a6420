"""Runs the application on an address."""

from __future__ import annotations

import errno
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from aiohttp import web
from aiohttp.http import HttpProcessingError

from lemonpod.errors import ConfigError
from lemonpod.gateway.headers import MAX_FIELD

# Ends connections that send nothing, or never the end of their headers. Clients keep idle ones for less.
_IDLE_TIMEOUT: Final = 75.0
_BACKLOG: Final = 1024


class _NoClientBytes(logging.Filter):
    """aiohttp logs a request that it cannot parse with its text, which may hold a key."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.exc_info = None
            record.levelno, record.levelname = logging.INFO, "INFO"
            record.msg += ": it is not HTTP as it should be"
        return True


_log: Final = logging.getLogger(__name__)
_log.addFilter(_NoClientBytes())


@asynccontextmanager
async def running(app: web.Application, host: str, port: int) -> AsyncIterator[tuple[str, int]]:
    """Serve until the block ends; yields the address, whose port is the chosen one where `port` is 0.

    At the end requests still running are cancelled: whoever ends the server has drained the engines first.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_log,
        max_line_size=MAX_FIELD,
        max_field_size=MAX_FIELD,
        handle_signals=False,
        auto_decompress=False,  # what cannot be inflated is the client's fault: intake answers it
        handler_cancellation=True,  # a client that leaves ends its engine's work, even before the first byte
        keepalive_timeout=_IDLE_TIMEOUT,
        shutdown_timeout=0.1,
    )
    await runner.setup()
    try:
        try:
            await _listen(runner, "127.0.0.1" if host == "localhost" else host, port)
        except OSError as error:
            raise _cannot_listen(host, port, error) from error
        bound_host, bound_port = runner.addresses[0][:2]
        if host == "localhost":
            # Some clients try this address first; not every machine has it.
            with suppress(OSError):
                await _listen(runner, "::1", bound_port)
        yield bound_host, bound_port
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    await web.TCPSite(runner, host, port, backlog=_BACKLOG).start()


def _cannot_listen(host: str, port: int, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port {port} on {host} is taken by another program",
            hint="end that one, or choose another with --port",
        )
    if error.errno == errno.EACCES:
        return ConfigError(f"port {port} needs privileges", hint="choose one from 1024 up with --port")
    return ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}")
