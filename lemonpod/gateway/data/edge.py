"""The server's edge: it listens, and leads each request to who answers it."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from lemonpod.gateway.data.client import ClientConnection
from lemonpod.gateway.data.clock import Clock
from lemonpod.gateway.data.control import Control
from lemonpod.gateway.data.exchange import Exchange
from lemonpod.gateway.data.relay import Relay, find_target
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.data.responder import Responder
from lemonpod.gateway.data.wire import Outbox
from lemonpod.gateway.settings import GatewaySettings

_BACKLOG: Final = 1024
_LONGEST_STEP: Final = 1.0


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
            if target is not None:
                return Exchange(self._relay, client, request, target)
        return self._control.responder(client, request)

    def opened(self, client: ClientConnection) -> None:
        self._clients.add(client)
        self.clock.join(client)

    def closed(self, client: ClientConnection) -> None:
        self._clients.discard(client)
        self.clock.leave(client)
