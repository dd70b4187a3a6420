"""What clients are told of models that make room, are pinned, idle, or have too many waiting for them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.fakes.driver import Connection
from tests.fakes.engine import FakeDriver
from tests.unit.gateway.wire import ok
from tests.unit.gateway.world import ENGINE_SETTINGS, RECIPE, Starter

OTHER = {"n": {"checkpoint": "org/repo:other.gguf", "recipe": RECIPE}}
CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


async def answer(connection: Connection) -> None:
    await connection.request()
    await connection.send(ok(b"{}"))


async def test_a_request_for_another_model_makes_room(start: Starter) -> None:
    world = await start(answer, models=OTHER, max_loaded=1)
    assert (await world.post(CHAT, HELLO | {"model": "m"})).status == 200
    assert (await world.post(CHAT, HELLO | {"model": "n"})).status == 200

    health = (await world.get("/v1/health")).json

    assert [item["model_name"] for item in health["all_models_loaded"]] == ["user.n"]
    assert set(health["max_models"].values()) == {1}
    record = (await world.get("/internal/activity")).json["requests"][-1]
    assert record["queue_ms"] > 200


async def test_a_higher_limit_lets_in_who_waits(start: Starter) -> None:
    world = await start(answer, models=OTHER, max_loaded=1)
    await world.post("/v1/load", {"model_name": "m", "pinned": True})
    assert (await world.post("/v1/load", {"model_name": "n"})).status == 409

    world.pool.limit_to(2)

    assert (await world.post("/v1/load", {"model_name": "n"})).status == 200
    health = (await world.get("/v1/health")).json
    assert {item["model_name"] for item in health["all_models_loaded"]} == {"user.m", "user.n"}
    assert set(health["max_models"].values()) == {2}


@pytest.mark.parametrize("by_load", [True, False])
async def test_nothing_is_loaded_in_place_of_a_pinned_model(start: Starter, *, by_load: bool) -> None:
    world = await start(answer, models=OTHER, max_loaded=1)
    await world.post("/v1/load", {"model_name": "m", "pinned": by_load})
    if not by_load:
        pinned = await world.post("/internal/pin", {"model": "m", "pinned": True})
        assert pinned.json == {"status": "success", "model_name": "user.m", "pinned": True}
    assert (await world.get("/v1/health")).json["pinned_models"]["llm"] == 1
    assert (await world.get("/internal/engines")).json["engines"][0]["pinned"] is True

    for refused in (
        await world.post(CHAT, HELLO | {"model": "n"}),
        await world.post("/v1/load", {"model_name": "n"}),
    ):
        assert (refused.status, refused.value("x-should-retry")) == (409, "false")
        assert refused.error == {
            "message": "user.n has no place: user.m is pinned "
            "(unload or unpin user.m, or raise max_loaded_models)",
            "type": "slots_pinned_error",
            "param": "model",
            "code": "slots_pinned_error",
            "requested_model": "n",
        }
    health = (await world.get("/v1/health")).json
    assert health["failed_models"] == []

    await world.post("/internal/pin", {"model_name": "m", "pinned": False})
    assert (await world.post(CHAT, HELLO | {"model": "n"})).status == 200


async def test_what_cannot_be_pinned(start: Starter) -> None:
    world = await start(answer)
    assert (await world.post("/internal/pin", {})).status == 400
    refused = await world.post("/internal/pin", {"model": "m"})
    assert (refused.status, refused.json) == (404, {"error": "Model not loaded: m"})
    assert (await world.post("/internal/pin", {"model": "m", "pinned": "yes"})).status == 400


@pytest.mark.parametrize("stream", [False, True])
async def test_more_than_may_wait_are_turned_away_before_any_byte(
    start: Starter, monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    monkeypatch.setattr("tests.unit.gateway.world.ENGINE_SETTINGS", replace(ENGINE_SETTINGS, max_queue=1))
    driver = FakeDriver()
    driver.habits.answers = False
    world = await start(answer, drivers=[driver])
    first = asyncio.create_task(world.post("/v1/load", {"model_name": "m"}))
    await world.until(lambda: bool(driver.running))

    for refused in (
        await world.post(CHAT, HELLO | {"model": "m", "stream": stream}),
        await world.post("/v1/load", {"model_name": "m", "stream": stream}),
    ):
        assert (refused.status, refused.value("Retry-After")) == (429, "30")
        assert refused.value("x-should-retry") is None
        assert refused.error["type"] == "queue_full"
    engine = (await world.get("/internal/engines")).json["engines"][0]
    assert engine["queued_requests"] == 1

    driver.habits.answers = True
    assert (await first).status == 200


async def test_an_idle_model_is_downsized_and_then_unloaded(start: Starter) -> None:
    world = await start(answer, downsize_endpoint="/less")
    options = {"auto_evict": True, "downsize_idle_timeout": 0.05, "evict_idle_timeout": 1.0}
    await world.post("/v1/load", {"model_name": "m"} | options)
    received = world.driver.engines[0].received
    await world.until(lambda: world.pool.statuses()[0].is_downsized)

    item = (await world.get("/v1/health")).json["all_models_loaded"][0]
    assert (item["status"], item["backend_health"], item["loaded"]) == ("downsized", "ready", True)
    assert [(request.method, request.target, request.body) for request in received] == [
        ("POST", "/less", b"{}")
    ]

    assert (await world.post(CHAT, HELLO | {"model": "m"})).status == 200
    await world.until(lambda: not world.pool.statuses())
    assert (await world.get("/v1/health")).json["all_models_loaded"] == []
