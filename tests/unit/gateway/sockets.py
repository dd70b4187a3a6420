"""What tests of WebSockets share."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Close
from websockets.typing import Subprotocol

from lemonpod.contract.vocabulary import CAPABILITIES, Capability
from lemonpod.gateway.settings import GatewaySettings
from tests.fakes.driver import Script
from tests.unit.gateway.world import Starter, World

REALTIME = "/v1/realtime?model=m"
StartSocket = Callable[..., Awaitable[World]]


@pytest.fixture
def serve(start: Starter, monkeypatch: pytest.MonkeyPatch) -> StartSocket:
    """Starts a gateway whose engine streams transcriptions.

    Only a variant may, and its command line is a built-in's:
    here that rule sleeps, and a script stands for one.
    """
    capability = Capability.STREAMING_TRANSCRIPTION
    spec = replace(CAPABILITIES[capability], variant_only=False)
    table = MappingProxyType({**CAPABILITIES, capability: spec})
    monkeypatch.setattr("lemonpod.contract.rules.CAPABILITIES", table)

    async def started(script: Script, settings: GatewaySettings | None = None, **more: Any) -> World:
        return await start(script, capabilities=["streaming_transcription"], settings=settings, **more)

    return started


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
