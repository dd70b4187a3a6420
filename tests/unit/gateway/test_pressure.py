"""What an administrator sees of models that make room for memory, and how it is tried out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lemonpod.engine.api import ExitStatus
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import ok
from tests.unit.gateway.world import RECIPE, Starter, World

ROUTE = "/internal/simulate-vram-pressure"
OTHER = {"n": {"checkpoint": "org/repo:other.gguf", "recipe": RECIPE}}
ON = {"auto_evict": True, "downsize_idle_timeout": 0, "evict_idle_timeout": 0}
NOTHING = {"status": "ok", "action": None, "model_name": None}


async def answer(connection: Connection) -> None:
    await connection.request()
    await connection.send(ok(b"{}"))


async def loaded(world: World) -> dict[str, dict[str, Any]]:
    items = (await world.get("/v1/health")).json["all_models_loaded"]
    return {item["model_name"]: item for item in items}


async def test_one_model_leaves_for_one_reading(start: Starter) -> None:
    world = await start(answer, models=OTHER)
    await world.post("/v1/load", {"model_name": "m"} | ON)
    await world.post("/v1/load", {"model_name": "n"} | ON)
    assert (await world.post(ROUTE, {"pct": 0.89})).json == NOTHING
    assert (await world.post(ROUTE, {"pct": -1})).json == NOTHING
    assert len(await loaded(world)) == 2

    done = await world.post(ROUTE, {"pct": 0.95})
    assert done.json["action"] == "evict"
    left = done.json["model_name"]
    await world.until(lambda: len(world.pool.statuses()) == 1)
    (stays,) = await loaded(world)
    assert {left, stays} == {"user.m", "user.n"}

    hello = {"messages": [{"role": "user", "content": "hi"}], "model": left}
    assert (await world.post("/v1/chat/completions", hello)).status == 200


async def test_memory_is_given_back_first(start: Starter) -> None:
    world = await start(answer, downsize_endpoint="/less")
    await world.post("/v1/load", {"model_name": "m"} | ON)
    done = await world.post(ROUTE, {"pct": 1})
    assert done.json == {"status": "ok", "action": "downsize", "model_name": "user.m"}
    await world.until(lambda: world.pool.statuses()[0].is_downsized)
    assert (await loaded(world))["user.m"]["status"] == "downsized"
    assert [request.target for request in world.driver.engines[0].received] == ["/less"]


async def test_a_model_that_makes_room_is_shown_as_that(start: Starter) -> None:
    less = asyncio.Event()

    async def slowly(connection: Connection) -> None:
        await connection.request()
        await less.wait()
        await connection.send(ok(b"{}"))

    world = await start(slowly, downsize_endpoint="/less")
    await world.post("/v1/load", {"model_name": "m"} | ON)
    await world.post(ROUTE, {"pct": 1.0})
    item = (await loaded(world))["user.m"]
    assert (item["status"], item["backend_health"]) == ("downsizing", "busy")
    less.set()
    await world.until(lambda: world.pool.statuses()[0].is_downsized)

    engine, gone = world.driver.engines[0], asyncio.Event()
    stop = engine.stop

    async def reluctantly(*, grace: float) -> ExitStatus:
        await gone.wait()
        return await stop(grace=grace)

    engine.stop = reluctantly  # type: ignore[method-assign]
    await world.post(ROUTE, {"pct": 1.0})
    item = (await loaded(world))["user.m"]
    assert (item["status"], item["backend_health"]) == ("evicting", "stopped")
    gone.set()


async def test_the_pinned_and_those_that_may_stay_are_spared(start: Starter) -> None:
    world = await start(answer, models=OTHER)
    await world.post("/v1/load", {"model_name": "m", "pinned": True} | ON)
    await world.post("/v1/load", {"model_name": "n"})
    assert (await world.post(ROUTE, {"pct": 1.0})).json == NOTHING
    assert len(await loaded(world)) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "'pct' must be a number (it is a share: 0.95 stands for 95 %)"),
        ({"pct": "0.95"}, "'pct' must be a number (it is a share: 0.95 stands for 95 %)"),
        ({"pct": True}, "'pct' must be a number (it is a share: 0.95 stands for 95 %)"),
        ({"pct": 95}, "'pct' must be between 0 and 1, not 95 (it is a share: 0.95 stands for 95 %)"),
        ({"pct": -0.5}, "'pct' must be between 0 and 1, not -0.5 (it is a share: 0.95 stands for 95 %)"),
        ([], None),
        (b"{", None),
        (b"", None),
    ],
)
async def test_what_is_no_reading(start: Starter, body: Any, message: str | None) -> None:
    world = await start(answer)
    refused = await world.post(ROUTE, body)
    assert refused.status == 400
    if message is not None:
        assert refused.json == {"error": message}


async def test_a_weight_must_weigh_something(start: Starter) -> None:
    world = await start(answer)
    refused = await world.post("/v1/load", {"model_name": "m", "evict_weight_factor": 0})
    assert refused.error["message"].endswith(
        "option 'evict_weight_factor' must be a number above zero, not 0"
    )
