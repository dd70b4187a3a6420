"""A request of a model that is not loaded begins the load, and may say one thing of it: the context."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.driver import Connection
from tests.unit.gateway.wire import ok
from tests.unit.gateway.world import Starter, World

CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": []}


async def answer(connection: Connection) -> None:
    await connection.request()
    await connection.send(ok(b"{}"))


def options(world: World) -> Any:
    [status] = world.pool.statuses()
    assert status.plan is not None
    return status.plan.options


async def test_the_context_is_the_loads_and_nothing_else_is(start: Starter) -> None:
    world = await start(answer)

    reply = await world.post(CHAT, BODY | {"ctx_size": 512, "args": "--evil", "pinned": True})

    assert reply.status == 200
    assert options(world)["ctx_size"] == 512
    assert not options(world).keys() & {"args", "pinned"}
    assert b'"ctx_size": 512' in world.driver.received[0].body


async def test_a_model_that_runs_keeps_its_context(start: Starter) -> None:
    world = await start(answer)
    await world.post("/v1/load", {"model_name": "m", "ctx_size": 1024})

    await world.post(CHAT, BODY | {"ctx_size": 512})

    assert options(world)["ctx_size"] == 1024
    assert len(world.driver.engines) == 1


@pytest.mark.parametrize("size", ["512", None, True, [512]])
async def test_what_is_no_size_is_the_engines_to_judge(start: Starter, size: Any) -> None:
    world = await start(answer)

    assert (await world.post(CHAT, BODY | {"ctx_size": size})).status == 200

    assert options(world).get("ctx_size") != 512
