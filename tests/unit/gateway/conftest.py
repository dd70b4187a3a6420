"""A gateway in front of engines that are the test's own scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.gateway.world import Start, World, start_world


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts gateways, and ends them with the test."""
    worlds: list[World] = []

    async def begin(*args: object, **kwargs: object) -> World:
        worlds.append(await start_world(*args, **kwargs))
        return worlds[-1]

    yield begin
    for world in worlds:
        await world.aclose()
