"""One request on its way through an engine: opened, read piece by piece, and given up at once."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from lemonpod.engine.instance import EngineLease
from lemonpod.errors import EngineStoppedError, LemonpodError, UpstreamError
from lemonpod.gateway.headers import MAX_FIELD
from lemonpod.gateway.settings import GatewaySettings

# From the end of a process's sockets to the news of its exit.
_EXIT_NOTICE: Final = 0.1
# Other statuses end no request, and clients cannot read them.
_FIRST_FINAL, _LAST_FINAL = 200, 599


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is asked of an engine."""

    method: str
    target: str
    """Path and raw query; nothing in it is decoded or normalised on the way."""
    headers: CIMultiDict[str]
    body: AsyncIterator[bytes] | io.BytesIO | None


def engine_session(settings: GatewaySettings) -> aiohttp.ClientSession:
    """The client side of the gateway: no proxies, no cookies, no redirects, no reuse of connections.

    An engine may close an idle connection at any moment, and on this machine a new one costs next to
    nothing. The number of connections is bounded by that of the clients.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        max_line_size=MAX_FIELD,
        max_field_size=MAX_FIELD,
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout),
    )


class Exchange:
    """An answer that has begun."""

    def __init__(self, lease: EngineLease, response: aiohttp.ClientResponse) -> None:
        self.plan = lease.plan
        self.model = lease.plan.model
        self.recipe = lease.plan.recipe
        self.status = response.status
        self.headers = response.headers
        self._lease = lease
        self._content = response.content

    async def read(self, *, patience: float | None = None) -> bytes | None:
        """The bytes that have come; none at the end, None where nothing came for `patience` seconds.

        Raises UpstreamError or EngineStoppedError where the answer breaks off.
        """
        try:
            async with asyncio.timeout(patience):
                chunk = await self._content.readany()
        except aiohttp.ClientError as error:
            raise await _cause(self._lease, error) from error
        except TimeoutError:
            return None
        if not chunk and not self._is_framed():
            await self._check_end()
        return chunk

    async def read_all(self, limit: int) -> tuple[bytes, bool]:
        """The rest of the body, and whether that was all of it: reading stops beyond `limit` bytes."""
        pieces: list[bytes] = []
        size = 0
        while size <= limit:
            if not (chunk := await self.read()):
                return b"".join(pieces), True
            pieces.append(chunk)
            size += len(chunk)
        return b"".join(pieces), False

    async def _check_end(self) -> None:
        """With neither a length nor chunks, the end of the connection looks the same dead or alive."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_NOTICE):
                if await self._lease.why() is not None:
                    raise await _cause(self._lease, EOFError())

    def _is_framed(self) -> bool:
        return "Content-Length" in self.headers or "Transfer-Encoding" in self.headers


@asynccontextmanager
async def exchange(session: aiohttp.ClientSession, lease: EngineLease, call: Call) -> AsyncIterator[Exchange]:
    """Send the call and wait for the answer's headers.

    However the block is left, a cancelled handler included, the connection is closed with it: that is how
    an engine learns that nobody listens any more. A lease that is cut ends the exchange as a dead engine
    does. Raises UpstreamError or EngineStoppedError where no answer begins.
    """
    response: aiohttp.ClientResponse | None = None
    opening = asyncio.timeout(None)

    async def end_when_cut() -> None:
        await lease.cut.wait()
        if response is not None:
            response.close()
        else:
            opening.reschedule(0)

    watcher = asyncio.create_task(end_when_cut())
    try:
        try:
            async with opening:
                response = await session.request(
                    call.method,
                    URL(lease.endpoint.url + call.target, encoded=True),
                    headers=call.headers,
                    data=call.body,
                    allow_redirects=False,
                )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise await _cause(lease, error) from error
        if not _FIRST_FINAL <= response.status <= _LAST_FINAL:
            raise UpstreamError(f"{lease.plan.recipe} broke off: it answered with status {response.status}")
        yield Exchange(lease, response)
    finally:
        watcher.cancel()
        if response is not None:
            response.close()


# In the order of the lookup: some are each other's bases.
_BREAKS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (aiohttp.ClientConnectorError, "it takes no connections"),
    (aiohttp.ServerDisconnectedError, "it closed the connection without an answer"),
    (aiohttp.ClientPayloadError, "its answer stopped in the middle"),
    (aiohttp.ClientResponseError, "its answer is not HTTP"),
    (EOFError, "its answer stopped in the middle"),
)


async def _cause(lease: EngineLease, error: Exception) -> LemonpodError:
    """What to tell the client of an engine that broke off: how it ended, else what the socket said."""
    cause = await lease.why()
    if isinstance(cause, EngineStoppedError):
        return cause
    told = next((text for kind, text in _BREAKS if isinstance(error, kind)), str(error))
    return UpstreamError(f"{lease.plan.recipe} broke off: {cause or told or type(error).__name__}")
