"""Is it there yet? One question to an engine's port, and the wait until the answer is yes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final
from urllib.parse import quote

from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.vocabulary import ProbeType
from lemonpod.engine.api import Engine, ExitStatus
from lemonpod.engine.failure import LOG_TAIL, exited_error, fit_to_tell
from lemonpod.engine.tasks import cancel
from lemonpod.errors import StartTimeoutError
from lemonpod.launch.plan import TcpEndpoint

CONNECT_TIMEOUT: Final = 0.5
"""Loopback connects at once or not at all."""
ANSWER_TIMEOUT: Final = 2.0
"""For one whole question: an engine that takes connections but never answers costs no more."""
FAREWELL_TIMEOUT: Final = 0.05
MAX_BODY_BYTES: Final = 64 << 10
"""Read and thrown away, so that a simple server finds its client still there when it writes."""
MAX_HEAD_BYTES: Final = 16 << 10


async def ask(endpoint: TcpEndpoint, probe: HealthProbe) -> str | None:
    """Ask once. None means yes; else the text says what was found instead."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            return await _ask(endpoint, probe)
    except TimeoutError:
        return f"{endpoint.url} took the connection and did not answer within {ANSWER_TIMEOUT:g} s"


async def _ask(endpoint: TcpEndpoint, probe: HealthProbe) -> str | None:
    writer = None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, limit=MAX_HEAD_BYTES)
        if probe.type is ProbeType.TCP:
            return None
        return await _ask_http(reader, writer, endpoint, probe)
    except (OSError, TimeoutError):
        return f"nothing takes connections at {endpoint.host}:{endpoint.port}"
    finally:
        if writer is not None:  # also where the time was over in the moment that it was connected
            writer.transport.abort()


async def _ask_http(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: TcpEndpoint, probe: HealthProbe
) -> str | None:
    """A GET by hand: nothing to follow a redirect, use a proxy, keep a cookie or pool the connection."""
    target = quote(probe.endpoint, safe="/?&=%:@!$'()*+,;~-._")
    host = endpoint.url.removeprefix("http://")
    writer.write(
        f"GET {target} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nConnection: close\r\n\r\n".encode("ascii")
    )
    where = f"GET {endpoint.url}{target}"
    try:
        status = await _read_status(reader)
    except (OSError, ValueError):  # ValueError: a line without end
        status = None
    if status is None:
        return f"{where} got no HTTP answer"
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(FAREWELL_TIMEOUT):
            await reader.read(MAX_BODY_BYTES)
    if status != probe.expected_status:
        return f"{where} got status {status}, not {probe.expected_status}"
    return None


async def _read_status(reader: asyncio.StreamReader) -> int | None:
    while True:
        version, _, rest = (await reader.readline()).decode("latin-1").partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/") or not code.isdecimal():
            return None
        if not code.startswith("1"):
            return int(code)
        while (await reader.readline()).strip():  # an interim answer: the real one follows its head
            pass


async def until_ready(engine: Engine) -> None:
    """Return when the engine's probe says yes.

    Raises EngineExitedError at once when the engine ends, StartTimeoutError when its time is over, and what
    the probe itself raises.
    """
    plan = engine.plan
    exited = asyncio.create_task(engine.wait())
    try:
        async with asyncio.timeout(plan.probe.timeout):
            while not await _probe_or_exit(engine, exited):
                await asyncio.wait({exited}, timeout=plan.probe.interval)
    except TimeoutError:
        raise StartTimeoutError(
            f"the {plan.recipe} engine of {plan.model} was not ready after {plan.probe.timeout:g} s: "
            f"{await engine.diagnose()}",
            log_tail=fit_to_tell(engine.log_tail(LOG_TAIL), plan),
            hint=f"`lemonpod logs {plan.model}`; if it is only slow, raise health_probe.timeout_seconds",
        ) from None
    finally:
        await cancel(exited)


async def _probe_or_exit(engine: Engine, exited: asyncio.Task[ExitStatus]) -> bool:
    probing = asyncio.create_task(engine.probe())
    try:
        await asyncio.wait({probing, exited}, return_when=asyncio.FIRST_COMPLETED)
        if exited.done():
            raise exited_error(
                engine.plan, exited.result(), engine.log_tail(LOG_TAIL), " before it was ready"
            )
        return probing.result()
    finally:
        await cancel(probing)
