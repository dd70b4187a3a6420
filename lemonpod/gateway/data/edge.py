"""The server's edge: it listens, and leads each request to who answers it."""

from __future__ import annotations

import asyncio
import logging
import math
import resource
from typing import Final

from aiohttp import web

from lemonpod.contract.vocabulary import Body
from lemonpod.gateway.data.client import ClientConnection
from lemonpod.gateway.data.clock import Clock
from lemonpod.gateway.data.control import Control
from lemonpod.gateway.data.exchange import Exchange
from lemonpod.gateway.data.interpreted import Interpreted, find_endpoint
from lemonpod.gateway.data.relay import Relay, find_target
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.data.responder import Responder
from lemonpod.gateway.data.tunnel import Tunnel
from lemonpod.gateway.data.wire import Outbox
from lemonpod.gateway.errors import Answer, typed_envelope
from lemonpod.gateway.settings import GatewaySettings

_BACKLOG: Final = 1024
_LONGEST_STEP: Final = 1.0
_SAY_AGAIN: Final = 60.0
_FULL: Final = Answer(
    503, typed_envelope("The server has too many open connections", "overloaded"), {"Retry-After": "1"}
)

log = logging.getLogger(__name__)


class Edge:
    """All connections of clients. Without a relay every request is a control request."""

    def __init__(
        self, relay: Relay | None, server: web.Server, settings: GatewaySettings, *, idle_timeout: float
    ) -> None:
        self.idle_timeout = idle_timeout
        self.body_timeout = settings.body_timeout
        self.write_timeout = settings.write_timeout
        timeouts = (idle_timeout, self.body_timeout, self.write_timeout, settings.heartbeat or _LONGEST_STEP)
        self.clock = Clock(min(_LONGEST_STEP, *timeouts))
        self.outbox = Outbox()
        self._relay = relay
        self._control = Control(server)
        self._clients: set[ClientConnection] = set()
        self._servers: list[asyncio.Server] = []
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._room = math.inf if limit == resource.RLIM_INFINITY else limit - max(limit // 8, 16)
        """Below the number of the first file that is kept for connections to engines and for the rest."""
        self._said = -math.inf

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Take connections at an address; returns it, whose port is the chosen one where `port` is 0."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ClientConnection(self), host, port, backlog=_BACKLOG)
        self._servers.append(server)
        bound_host, bound_port = server.sockets[0].getsockname()[:2]
        return bound_host, bound_port

    def close_door(self) -> None:
        """Take no more connections."""
        for server in self._servers:
            server.close()

    def close(self) -> None:
        """End all connections, to clients and engines."""
        for client in list(self._clients):
            client.stop()
        if self._relay is not None:
            self._relay.close()
        self.clock.stop()

    # --- for its connections ------------------------------------------------------------------------------

    def responder(self, client: ClientConnection, request: Request) -> Responder:
        """Who answers this request."""
        if self._relay is not None:
            target = find_target(request.method, request.target)
            if target is not None and target.route.spec.body is Body.SOCKET:
                return Tunnel(self._relay, client, request, target)
            if target is not None:
                return Exchange(self._relay, client, request, target)
            if (endpoint := find_endpoint(request)) is not None:
                return Interpreted(self._relay, client, request, endpoint)
        return self._control.responder(client, request)

    def opened(self, client: ClientConnection) -> None:
        self._clients.add(client)
        self.clock.join(client)
        # A new file gets the lowest number that is free: a high one tells that few are left.
        if client.transport.get_extra_info("socket").fileno() >= self._room:
            self._say_full()
            client.turn_away(_FULL)

    def closed(self, client: ClientConnection) -> None:
        self._clients.discard(client)
        self.clock.leave(client)

    def _say_full(self) -> None:
        now = self.clock.exact()
        if now - self._said >= _SAY_AGAIN:
            self._said = now
            log.warning(
                "%d connections are open, and hardly another file may be: new ones are turned away until "
                "others end (raise the hard limit of open files, as with LimitNOFILE= of systemd)",
                len(self._clients) - 1,
            )
