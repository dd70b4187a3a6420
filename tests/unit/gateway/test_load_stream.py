"""`/load` with `stream`, and what `/health` and `/internal/engines` tell of a preparation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from lemonpod.engine.api import Progress
from lemonpod.errors import PullError
from tests.fakes.engine import FakeDriver
from tests.unit.gateway.world import Starter, World

PULLING = Progress(text="pulling image", done_bytes=1, total_bytes=4)


@pytest.fixture
def driver() -> FakeDriver:
    driver = FakeDriver()
    driver.habits.preparing = (PULLING,)
    driver.habits.prepared = asyncio.Event()
    return driver


async def never(*_: Any) -> None:
    raise AssertionError("the engine is asked nothing")


def events(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    told = []
    for event in body.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        told.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return told


async def begun(world: World, driver: FakeDriver) -> None:
    await world.until(
        lambda: (status := world.pool.status("user.m")) is not None and status.progress is not None
    )


SHOWN = {"text": "pulling image", "done_bytes": 1, "total_bytes": 4, "percent": 25.0}


async def test_a_load_is_told_of_until_it_is_complete(start: Starter, driver: FakeDriver) -> None:
    world = await start(never, drivers=[driver])
    asking = asyncio.create_task(world.post("/v1/load", {"model_name": "user.m", "stream": True}))
    await begun(world, driver)
    health = (await world.get("/v1/health")).json["all_models_loaded"][0]
    assert (health["status"], health["progress"]) == ("loading", SHOWN)
    engine = (await world.get("/internal/engines")).json["engines"][0]
    assert (engine["state"], engine["driver"], engine["progress"]) == ("starting", "process", SHOWN)
    assert driver.habits.prepared is not None
    await asyncio.sleep(0.3)  # longer than the stream takes to look again
    driver.habits.prepared.set()
    reply = await asking
    assert reply.status == 200
    assert reply.value("content-type") == "text/event-stream"
    assert reply.value("X-Accel-Buffering") == "no"  # H31
    told = events(reply.body)
    assert told[0] == (
        "progress",
        {"model_name": "user.m", "status": "preparing", "progress": SHOWN},
    )
    name, data = told[-1]
    assert (name, data["status"], data["model_name"]) == ("complete", "success", "user.m")
    assert {name for name, _ in told[:-1]} == {"progress"}


async def test_a_load_that_fails_says_so_last(start: Starter, driver: FakeDriver) -> None:
    driver.habits.prepare_error = PullError("image: denied", hint="log in")
    assert driver.habits.prepared is not None
    driver.habits.prepared.set()
    world = await start(never, drivers=[driver])
    reply = await world.post("/v1/load", {"model_name": "user.m", "stream": True})
    name, data = events(reply.body)[-1]
    assert (name, data["status_code"], data["error"]["code"]) == ("error", 500, "model_load_error")
    assert "image: denied (log in)" in data["error"]["message"]


async def test_what_is_wrong_with_the_request_is_no_event(start: Starter, driver: FakeDriver) -> None:
    world = await start(never, drivers=[driver])
    assert (await world.post("/v1/load", {"model_name": "no", "stream": True})).status == 404
    refused = await world.post("/v1/load", {"model_name": "user.m", "stream": 1})
    assert (refused.status, refused.json) == (400, {"error": "'stream' must be true or false"})


async def test_a_client_that_leaves_the_stream_ends_its_load(start: Starter, driver: FakeDriver) -> None:
    world = await start(never, drivers=[driver])
    asking = asyncio.create_task(world.post("/v1/load", {"model_name": "user.m", "stream": True}))
    await begun(world, driver)
    world.hang_up()
    assert not (await asking).complete
    await world.until(lambda: world.pool.status("user.m") is None)
