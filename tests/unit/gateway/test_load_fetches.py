"""A load of a model whose files are not here fetches them first, from a stand-in of the hub."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lemonpod.cli.app import EXIT_FINDINGS, EXIT_OK, run
from lemonpod.pull.pulls import JobState
from tests.fakes.engine import FakeDriver
from tests.hub_site import HubSite, Repo
from tests.unit.gateway.hubbed import BIG, SELF_MANAGED, models, never
from tests.unit.gateway.test_load_stream import events
from tests.unit.gateway.world import RECIPE, Starter, World
from tests.users import folders_of_mode, python_bound_by_modes
from tests.waiting import until

TWO = {"main": "org/repo:Q4_0", "mmproj": "org/repo:mmproj-F16.gguf"}
ASKING = {"model": "two", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
async def world(start: Starter, site: HubSite, driver: FakeDriver) -> World:
    return await start(
        never,
        drivers=[driver],
        environ={"HF_ENDPOINT": site.url},
        platforms={
            "linux": {"cpu": {"command": "engine", "args": ["{checkpoint:main}", "{checkpoint:mmproj}"]}}
        },
        models={"two": {"checkpoints": TWO, "recipe": RECIPE}},
    )


async def jobs(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await world.get("/v1/downloads")).body)
    return found


async def until_half(world: World) -> None:
    """The stand-in has sent what it sends before its gate."""
    async with asyncio.timeout(20):
        while not any(job["bytes_downloaded"] for job in await jobs(world)):
            pass  # asking lets the others have their turn


async def test_b3_a_load_fetches_what_is_absent(world: World, site: HubSite, driver: FakeDriver) -> None:
    assert "user.two" not in await models(world)
    reply = await world.post("/v1/load", {"model_name": "two"})
    assert (reply.status, reply.json) == (
        200,
        {
            "status": "success",
            "model_name": "user.two",
            "checkpoint": "org/repo:Q4_0",
            "recipe": RECIPE,
        },
    )
    assert (await models(world))["user.two"]["downloaded"] is True
    site.asked.clear()
    await world.post("/v1/unload", {})
    assert (await world.post("/v1/load", {"model_name": "two"})).status == 200
    assert not site.asked  # nothing newer is looked for


async def test_the_progress_is_part_of_the_loads_stream(
    world: World, site: HubSite, driver: FakeDriver
) -> None:
    site.gate = threading.Event()
    asking = asyncio.create_task(world.post("/v1/load", {"model_name": "two", "stream": True}))
    await until_half(world)
    assert not driver.engines  # nothing starts before all is there
    (loading,) = (await world.get("/v1/health")).json["all_models_loaded"]
    assert (loading["status"], loading["progress"]["total_bytes"]) == ("loading", len(BIG) + 5)
    assert (await world.get("/internal/engines")).json["engines"][0]["state"] == "starting"
    await asyncio.sleep(0.3)  # longer than the stream takes to look again
    site.gate.set()
    told = events((await asking).body)
    fetching = [data for _, data in told if data.get("progress") and data["progress"]["total_bytes"]]
    assert fetching[0]["status"] == "preparing"
    (half,) = {
        progress["text"]
        for progress in (data["progress"] for data in fetching)
        if 0 < progress["done_bytes"] < len(BIG)
    }
    assert half == "fetching 1/2 m-Q4_0.gguf"
    assert told[-1][0] == "complete"


async def test_a_model_is_pinned_while_it_is_fetched(world: World, site: HubSite) -> None:
    site.gate = threading.Event()
    loading = asyncio.create_task(world.post("/v1/load", {"model_name": "two"}))
    await until_half(world)
    for pinned in (False, True):
        assert (await world.post("/internal/pin", {"model": "two", "pinned": pinned})).status == 200
        (item,) = (await world.get("/v1/health")).json["all_models_loaded"]
        assert (item["status"], item["pinned"]) == ("loading", pinned)
    site.gate.set()
    assert (await loading).status == 200
    assert (await world.get("/v1/health")).json["pinned_models"]["llm"] == 1


async def test_a_request_fetches_and_all_who_wait_share_it(
    world: World, site: HubSite, driver: FakeDriver
) -> None:
    site.gate = threading.Event()
    asking = [asyncio.create_task(world.pool.load("user.two")) for _ in range(2)]
    pulling = asyncio.create_task(world.post("/v1/pull", {"model": "two"}))
    await until_half(world)
    site.gate.set()
    await asyncio.gather(*asking, pulling)
    assert len(site.contents()) == 2
    assert len(driver.engines) == 1


async def test_a_load_that_nobody_waits_for_stops_fetching_and_the_next_goes_on(
    world: World, site: HubSite, driver: FakeDriver
) -> None:
    site.gate = threading.Event()
    asking = asyncio.create_task(world.post("/v1/chat/completions", ASKING))
    await until_half(world)
    world.hang_up()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError, EOFError)):
        await asking
    await until(lambda: world.pool.status("user.two") is None)
    (job,) = await jobs(world)
    assert (job["status"], job["running"]) == (JobState.CANCELLED, False)
    site.gate.set()
    site.asked.clear()
    assert (await world.post("/v1/load", {"model_name": "two"})).status == 200
    assert site.contents()[0].range is not None
    assert len(driver.engines) == 1


async def test_a_load_that_is_unloaded_stops_fetching(world: World, site: HubSite) -> None:
    site.gate = threading.Event()
    asking = asyncio.create_task(world.post("/v1/load", {"model_name": "two"}))
    await until_half(world)
    assert (await world.post("/v1/unload", {"model_name": "two"})).status == 200
    assert (await asking).status == 503
    assert not (await jobs(world))[0]["running"]


async def test_a_model_that_is_deleted_meanwhile_is_not_loaded(world: World, site: HubSite) -> None:
    site.gate = threading.Event()
    asking = asyncio.create_task(world.post("/v1/load", {"model_name": "two"}))
    await until_half(world)
    assert (await world.post("/v1/delete", {"model": "two"})).status == 200
    assert (await asking).status in {500, 503}
    assert world.pool.status("user.two") is None


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/load", {"model_name": "two"}), ("/v1/chat/completions", ASKING)]
)
async def test_a_download_that_fails_is_why_the_load_does(
    world: World, site: HubSite, driver: FakeDriver, path: str, body: dict[str, Any]
) -> None:
    site.repos["org/repo"] = Repo({}, status=403, error_code="GatedRepo")
    reply = await world.post(path, body)
    assert (reply.status, reply.error["code"]) == (500, "model_load_error")
    assert "cannot be fetched: 'org/repo' is gated" in reply.error["message"]
    assert "accept its terms" in reply.error["details"]["hint"]
    assert not driver.engines
    site.repos["org/repo"] = Repo({"m-Q4_0.gguf": BIG, "mmproj-F16.gguf": b"GGUFp"})
    assert (await world.post("/v1/load", {"model_name": "two"})).status == 200  # no cool-down


async def test_offline_nothing_is_fetched(start: Starter, site: HubSite) -> None:
    world = await start(
        never,
        drivers=[FakeDriver()],
        environ={"HF_ENDPOINT": site.url, "HF_HUB_OFFLINE": "1"},
        platforms={"linux": {"cpu": {"command": "engine", "args": ["{checkpoint:main}"]}}},
    )
    reply = await world.post("/v1/load", {"model_name": "m"})
    assert (reply.status, reply.error["code"]) == (500, "model_load_error")
    assert "is not in the Hugging Face cache" in reply.error["message"]
    assert not site.asked


@pytest.mark.parametrize("stream", [True, False])
async def test_paths_and_other_registries_are_not_asked_of_the_hub(
    start: Starter, site: HubSite, stream: bool
) -> None:
    entries = {
        "path": {"checkpoint": "/nowhere/x.gguf", "recipe": RECIPE, "source": "local_path"},
        "scope": {"checkpoint": "org/repo:Q4_0", "recipe": RECIPE, "registry_source": "modelscope"},
    }
    world = await start(
        never,
        drivers=[FakeDriver()],
        environ={"HF_ENDPOINT": site.url},
        platforms={"linux": {"cpu": {"command": "engine", "args": ["{checkpoint:main}"]}}},
        models=entries,
    )
    for name, words in {"path": "/nowhere/x.gguf does not exist", "scope": "is of ModelScope"}.items():
        reply = await world.post("/v1/load", {"model_name": name, "stream": stream})
        error = events(reply.body)[-1][1]["error"] if stream else reply.error
        assert (error["code"], words in error["message"]) == ("model_load_error", True)
    assert not site.asked


async def test_the_command_shows_what_comes(
    world: World, site: HubSite, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--host", "127.0.0.1", "--port", str(world.port)]
    site.gate = threading.Event()
    loading = asyncio.create_task(asyncio.to_thread(run, ["load", "two", *where]))
    shown: list[str] = []

    def is_told() -> bool:
        shown.append(capsys.readouterr().err)
        return "fetching " in "".join(shown)

    await until(is_told)
    site.gate.set()
    assert await loading == EXIT_OK
    await world.post("/v1/delete", {"model": "two"})
    site.repos["org/repo"].status = 500
    assert await asyncio.to_thread(run, ["load", "m", *where]) == EXIT_FINDINGS
    assert "cannot be fetched" in capsys.readouterr().err


async def test_an_engine_that_has_its_own_models_is_fetched_nothing(start: Starter, site: HubSite) -> None:
    world = await start(
        never,
        drivers=[FakeDriver()],
        environ={"HF_ENDPOINT": site.url},
        files=SELF_MANAGED,
        models={"own": {"checkpoint": "org/repo:Q4_0", "recipe": "self"}},
    )
    await world.post("/v1/load", {"model_name": "own"})
    assert not site.asked


async def test_a_model_in_a_read_only_cache_is_loaded_and_an_absent_one_is_told_of(
    world: World, site: HubSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # M13
    assert (await world.post("/v1/load", {"model_name": "two"})).status == 200
    await world.post("/v1/unload", {})
    monkeypatch.setattr(sys, "executable", python_bound_by_modes(tmp_path))
    with folders_of_mode(0o555, world.folder / "hub"):
        assert (await world.post("/v1/load", {"model_name": "two"})).status == 200
        reply = await world.post("/v1/load", {"model_name": "m"})
        assert (reply.status, reply.error["code"]) == (500, "model_load_error")
        assert "cannot be read or written" in reply.error["message"]
        assert (await world.post("/v1/delete", {"model": "m"})).status == 200
