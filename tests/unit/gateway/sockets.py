"""What tests of WebSockets share."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Close
from websockets.typing import Subprotocol

from tests.unit.gateway.world import World

REALTIME = "/v1/realtime?model=m"
StartSocket = Callable[..., Awaitable[World]]


async def dial(
    world: World,
    target: str = REALTIME,
    *,
    protocols: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> ClientConnection:
    """A client's side of a WebSocket."""
    return await connect(
        f"ws://127.0.0.1:{world.port}{target}",
        subprotocols=[Subprotocol(name) for name in protocols] or None,
        additional_headers=dict(headers or {}),
        max_size=None,
        **{"ping_interval": None, "close_timeout": 5, "proxy": None, **options},
    )


async def refused(world: World, target: str = REALTIME, **options: Any) -> tuple[int, bytes]:
    """The status and the body of an offer that is not taken."""
    with pytest.raises(InvalidStatus) as caught:
        await dial(world, target, **options)
    return caught.value.response.status_code, bytes(caught.value.response.body)


async def ending(client: ClientConnection) -> tuple[int | None, str | None]:
    """The code and the reason that the other side gave; None where it gave none."""
    received = await _until_closed(client)
    return (None, None) if received is None else (received.code, received.reason)


async def _until_closed(client: ClientConnection) -> Close | None:
    async with asyncio.timeout(10):
        while True:
            try:
                await client.recv()
            except ConnectionClosed as closed:
                return closed.rcvd


def offer(**more: str) -> dict[str, str]:
    """The headers of a handshake."""
    key = base64.b64encode(os.urandom(16)).decode()
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }


def idle(world: World) -> bool:
    """No engine is held."""
    return not any(status.in_flight for status in world.pool.statuses())
