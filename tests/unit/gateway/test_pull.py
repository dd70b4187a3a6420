"""Models that come and go over the API, with a stand-in of the hub behind it."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from contextlib import aclosing
from typing import Any

import pytest

from lemonpod.pull.pulls import Order, Pulls
from tests.hub_site import COMMIT, HubSite
from tests.unit.gateway.hubbed import BIG, NEW, models
from tests.unit.gateway.test_load_stream import events, never
from tests.unit.gateway.world import RECIPE, Starter, World
from tests.waiting import until


def entries(world: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((world.folder / "user_models.json").read_text())
    return found


async def test_a_model_is_registered_and_fetched(world: World, site: HubSite) -> None:
    reply = await world.post("/v1/pull", {**NEW, "vision": True, "mmproj": "mmproj-F16.gguf"})
    assert (reply.status, reply.json) == (
        200,
        {"status": "success", "model_name": "user.new", "message": "Installed model: user.new"},
    )
    assert entries(world)["new"] == {
        "checkpoints": {"main": "org/repo:Q4_0", "mmproj": "org/repo:mmproj-F16.gguf"},
        "recipe": RECIPE,
        "labels": ["vision"],
    }
    item = (await models(world))["user.new"]
    assert (item["downloaded"], item["registry_source"]) == (True, "huggingface")
    files = (await world.get("/v1/models/new/files")).json
    assert files == {
        "model_id": "user.new",
        "files": [
            {"name": "m-Q4_0.gguf", "role": "main", "size_bytes": len(BIG), "exists": True},
            {"name": "mmproj-F16.gguf", "role": "mmproj", "size_bytes": 5, "exists": True},
        ],
    }
    told = (await world.get("/v1/models/new/files?include_paths=true")).json["files"][0]["path"]
    assert (world.folder / told).read_bytes() == BIG


async def test_a_registered_model_is_fetched_by_any_of_its_names(world: World) -> None:
    assert not await models(world)
    assert (await world.post("/v1/pull", {"model": "M"})).json["model_name"] == "user.m"
    assert list(await models(world)) == ["user.m"]


async def test_the_progress_is_told_as_events(world: World, site: HubSite) -> None:
    site.gate = threading.Event()
    asking = asyncio.create_task(world.post("/v1/pull", {**NEW, "stream": True}))
    jobs = await until_downloading(world)
    assert jobs[0]["id"] == "model:user.new"
    await asyncio.sleep(0.3)  # longer than the stream takes to look again
    site.gate.set()
    reply = await asking
    assert (reply.status, reply.value("content-type")) == (200, "text/event-stream")
    assert reply.value("X-Accel-Buffering") == "no"  # H31
    told = events(reply.body)
    assert {name for name, _ in told[:-1]} == {"progress"}
    progress = told[-2][1]
    assert progress["file"] == "m-Q4_0.gguf"
    assert (progress["file_index"], progress["total_files"]) == (1, 1)
    assert progress["bytes_total"] == progress["total_download_size"] == len(BIG)
    assert 0 < progress["bytes_downloaded"] <= len(BIG)
    assert isinstance(progress["percent"], int)
    assert told[-1] == (
        "complete",
        {
            "file_index": 1,
            "total_files": 1,
            "percent": 100,
            "status": "success",
            "model_name": "user.new",
            "message": "Installed model: user.new",
        },
    )


async def until_downloading(world: World) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        while not any(job["bytes_downloaded"] for job in jobs):
            await asyncio.sleep(0.02)
            jobs = json.loads((await world.get("/v1/downloads")).body)
    return jobs


async def test_a_failure_is_the_last_event(world: World, site: HubSite) -> None:
    site.repos["org/repo"].status, site.repos["org/repo"].error_code = 403, "GatedRepo"
    reply = await world.post("/v1/pull", {**NEW, "stream": True})
    name, data = events(reply.body)[-1]
    assert (name, data["status_code"], data["code"]) == ("error", 500, "hub_access_denied")
    assert "is gated" in data["error"]
    assert "new" not in entries(world)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_stops_the_pull(world: World, site: HubSite, stream: bool) -> None:
    site.gate = threading.Event()
    asking = asyncio.create_task(world.post("/v1/pull", {**NEW, "stream": stream}))
    await until_downloading(world)
    world.hang_up()
    if stream:
        assert not (await asking).complete
    else:
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError, EOFError)):
            await asking
    async with asyncio.timeout(20):
        while (jobs := json.loads((await world.get("/v1/downloads")).body))[0]["running"]:
            continue
    assert jobs[0]["status"] == "cancelled"
    site.gate.set()
    site.asked.clear()
    assert (await world.post("/v1/pull", {"model": "user.new"})).status == 200
    assert [asked.range for asked in site.contents()] != [None]


async def test_a_download_of_the_servers_own(world: World, site: HubSite) -> None:
    site.gate = threading.Event()
    job = (await world.post("/v1/pull", {**NEW, "stream": True, "subscribe": False})).json
    assert (job["id"], job["status"], job["running"], job["complete"]) == (
        "model:user.new", "downloading", True, False,
    )  # fmt: skip
    await until_downloading(world)
    control = {"id": "model:user.new", "action": "pause"}
    job = (await world.post("/v1/downloads/control", control)).json
    assert (job["status"], job["running"]) == ("paused", False)
    site.gate.set()
    await world.post("/v1/pull", {"model": "user.new", "stream": True, "subscribe": False})
    async with asyncio.timeout(20):
        while not (jobs := json.loads((await world.get("/v1/downloads")).body))[0]["complete"]:
            continue
    assert jobs[0]["status"] == "completed"
    assert jobs[0]["bytes_previously_downloaded"] > 0
    remove = {"id": "model:user.new", "action": "remove"}
    assert (await world.post("/v1/downloads/control", remove)).json == {"status": "ok"}
    assert (await world.post("/v1/downloads/control", remove)).json == {"status": "ok", "missing": True}
    assert json.loads((await world.get("/v1/downloads")).body) == []
    unknown = await world.post("/v1/downloads/control", control)
    assert (unknown.status, unknown.json["code"]) == (400, "unknown_model")
    for bad in ({"id": 1, "action": "pause"}, {"id": "x", "action": "stop"}):
        assert (await world.post("/v1/downloads/control", bad)).status == 400


REFUSED: list[tuple[dict[str, Any], int, str, str | None]] = [
    ({}, 400, "'model_name' parameter is required", None),
    ({"model": "nope"}, 400, "Model 'nope' was not found", "unknown_model"),
    ({**NEW, "model_name": "new"}, 400, "must be called 'user.…'", None),
    ({**NEW, "model_name": "user.user.x"}, 400, "invalid model name", None),
    ({"model": "user.x", "checkpoint": "org/repo:Q4_0"}, 400, "'recipe' parameter is required", None),
    ({**NEW, "recipe": "nope"}, 400, "no external manifest registered for recipe 'nope'", None),
    ({**NEW, "labels": ["image"]}, 400, "image", None),
    ({**NEW, "labels": ["embeddings", "image"]}, 400, "stand for different modes", None),
    ({**NEW, "labels": "x"}, 400, "'labels' must be a list of strings", None),
    ({**NEW, "checkpoint": "org/repo"}, 400, "name the one to fetch, as 'org/repo:m-Q4_0.gguf'", None),
    ({**NEW, "checkpoint": "nope"}, 400, "is neither 'org/repo'", None),
    ({**NEW, "checkpoint": "org/repo:../x"}, 400, "without '..'", None),
    ({**NEW, "checkpoint": "org/repo:Q5"}, 404, "has no file for 'Q5'; it has: m-Q4_0.gguf", "hub_not_found"),
    ({**NEW, "checkpoint": "org/nope:Q4"}, 404, "there is no 'org/nope'", "hub_not_found"),
    ({**NEW, "checkpoints": {"main": "a/b:c"}}, 400, "'checkpoint' differs from 'checkpoints.main'", None),
    ({**NEW, "recipe_options": {"nope": 1}}, 400, "has no option 'nope'", None),
    ({**NEW, "stream": "yes"}, 400, "'stream' must be true or false", None),
    ({**NEW, "vision": 1}, 400, "'vision' must be true or false", None),
    ({**NEW, "source": "modelscope"}, 400, "'source' 'modelscope' is not supported", None),
    ({**NEW, "local_import": True}, 400, "'local_import' is not supported", None),
    ({**NEW, "components": ["a"]}, 400, "unknown parameter 'components'", None),
]


@pytest.mark.parametrize(("body", "status", "words", "code"), REFUSED)
async def test_what_cannot_be_pulled(
    world: World, body: dict[str, Any], status: int, words: str, code: str | None
) -> None:
    reply = await world.post("/v1/pull", body)
    assert reply.status == status, reply.body
    assert isinstance(reply.json["error"], str)
    assert words in reply.json["error"]
    if code is not None:
        assert reply.json["code"] == code
    assert list(entries(world)) == ["m"]


async def test_offline_is_told_as_such(start: Starter, site: HubSite) -> None:
    world = await start(
        never,
        environ={"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": site.url},
        platforms={"linux": {"cpu": {"command": "engine", "args": ["{checkpoint:main}"]}}},
    )
    reply = await world.post("/v1/pull", NEW)
    assert (reply.status, reply.json["code"]) == (400, "lemond_offline")
    reply = await world.get("/v1/pull/variants?checkpoint=org/repo")
    assert (reply.status, reply.json["code"]) == (400, "lemond_offline")
    assert not site.asked


async def test_what_is_here_needs_no_hub(world: World, site: HubSite) -> None:
    await world.post("/v1/pull", NEW)
    site.asked.clear()
    assert (await world.post("/v1/pull", {"model": "new", "do_not_upgrade": True})).status == 200
    assert not site.asked
    assert (await world.post("/v1/pull", {"model": "new"})).status == 200
    assert site.asked
    assert not site.contents()


async def test_a_self_managed_model_is_not_downloaded(world: World, site: HubSite) -> None:
    body = {"model_name": "user.own", "recipe": "self", "checkpoint": "whatever:it likes"}
    assert (await world.post("/v1/pull", body)).status == 200
    assert (await world.post("/v1/pull", {"model": "own", "stream": True})).status == 200
    assert not site.asked
    assert (await models(world))["user.own"]["downloaded"] is True


async def test_a_model_is_registered_alone(world: World, site: HubSite) -> None:
    reply = (await world.post("/v1/models/register", NEW)).json
    assert (reply["status"], reply["canonical_model_name"]) == ("success", "user.new")
    assert (reply["model"]["id"], reply["model"]["downloaded"]) == ("user.new", False)
    assert not site.asked
    assert "new" in entries(world)
    refused = await world.post("/v1/models/register", {"model_name": "user.x"})
    assert (refused.status, refused.json["error"]) == (
        400,
        "'recipe' parameter is required to register a model",
    )


async def test_the_variants_of_a_repository(world: World) -> None:
    offer = (await world.get("/v1/pull/variants?checkpoint=org/repo")).json
    assert offer == {
        "checkpoint": "org/repo",
        "recipe": "llamacpp",
        "suggested_name": "repo",
        "suggested_labels": ["vision"],
        "mmproj_files": ["mmproj-F16.gguf"],
        "variants": [
            {"name": name, "primary_file": file, "files": [file], "sharded": False, "size_bytes": size}
            for name, file, size in (
                ("Q8_0", "m-Q8_0.gguf", 5),
                ("Q4_0", "m-Q4_0.gguf", len(BIG)),
                ("model.gguf", "model.gguf", 4),
            )
        ],
    }
    assert (await world.get("/v1/pull/variants?checkpoint=repo")).status == 400
    assert (await world.get("/v1/pull/variants?checkpoint=org/nope")).status == 404


async def test_a_model_is_deleted_with_its_files(world: World) -> None:
    await world.post("/v1/pull", NEW)
    await world.post("/v1/pull", {"model": "m"})
    await world.post("/v1/models/new/options", {"speed": 2})
    reply = await world.post("/v1/delete", {"model": "new"})
    assert (reply.status, reply.json) == (200, {"status": "success", "message": "Deleted model: user.new"})
    assert list(entries(world)) == ["m"]
    assert json.loads((world.folder / "recipe_options.json").read_text()) == {}
    assert list(await models(world)) == ["user.m"]
    assert [path.read_bytes() for path in (world.folder / "hub").glob("*/blobs/*")] == [b"GGUF"]
    again = await world.post("/v1/delete", {"model": "new"})
    assert again.status == 422
    assert again.json["error"].startswith("Model 'new' was not found")


async def test_a_model_that_is_loaded_is_unloaded_first(world: World) -> None:
    await world.post("/v1/pull", {"model": "m"})
    assert (await world.post("/v1/load", {"model": "m"})).status == 200
    assert (await world.post("/v1/delete", {"model": "m"})).status == 200
    assert world.pool.status("user.m") is None
    assert not entries(world)


async def test_of_two_who_delete_a_model_one_is_late(world: World) -> None:
    await world.post("/v1/pull", NEW)

    replies = await asyncio.gather(*(world.post("/v1/delete", {"model": "user.new"}) for _ in range(8)))

    assert sorted({reply.status for reply in replies}) == [200, 422]
    assert list(entries(world)) == ["m"]


async def test_a_model_that_is_being_fetched_is_deleted(world: World, site: HubSite) -> None:
    site.gate = threading.Event()
    await world.post("/v1/pull", {**NEW, "stream": True, "subscribe": False})
    await until_downloading(world)
    assert (await world.post("/v1/delete", {"model": "user.new"})).status == 200
    assert json.loads((await world.get("/v1/downloads")).body) == []
    assert list(entries(world)) == ["m"]


async def test_files_of_the_users_own_are_not_deleted(world: World) -> None:
    (world.folder / "extra").mkdir()
    (world.folder / "extra" / "x.gguf").write_bytes(b"GGUF")
    reply = await world.post("/v1/delete", {"model": "extra.x"})
    assert reply.status == 422
    assert f"remove it by hand: {world.folder}/extra/x.gguf" in reply.json["error"]
    own = world.folder / "own.gguf"
    own.write_bytes(b"GGUF")
    body = {"model_name": "user.own", "recipe": RECIPE, "checkpoint": str(own)}
    assert (await world.post("/v1/pull", body)).status == 200
    assert (await models(world))["user.own"]["downloaded"] is True
    assert (await world.post("/v1/delete", {"model": "own"})).status == 200
    assert own.exists()


async def test_a_file_that_is_no_model_is_not_downloaded(world: World) -> None:
    await world.post("/v1/pull", {"model": "m"})
    (link,) = (world.folder / "hub").glob("*/snapshots/*/model.gguf")
    link.resolve().write_bytes(b"version https://git-lfs.github.com/spec/v1")
    item = (await models(world, "?show_all=1"))["user.m"]
    assert item["downloaded"] is False
    link.resolve().write_bytes(b"LFS!")  # as long as the model is: for a pull it is there
    reply = await world.post("/v1/load", {"model": "m"})
    assert reply.status == 500
    assert "is no GGUF file" in reply.error["message"]


async def test_what_another_server_fetches_is_not_deleted(world: World, site: HubSite) -> None:
    await world.post("/v1/pull", {"model": "m"})
    site.gate = threading.Event()
    environ = {"HF_ENDPOINT": site.url, "PATH": os.environ["PATH"]}
    async with aclosing(Pulls(world.folder / "hub", environ)) as other:
        await other.start("user.other", Order(checkpoints={"main": NEW["checkpoint"]}))
        await until(lambda: (job := other.find("user.other")) and job.progress.bytes_downloaded)
        reply = await world.post("/v1/delete", {"model": "m"})
        assert reply.status == 422
        assert "are being fetched at this moment (wait for that" in reply.json["error"]
    assert list(entries(world)) == ["m"]
    assert list(await models(world)) == ["user.m"]
    assert (await world.post("/v1/delete", {"model": "m"})).status == 200


async def test_the_cache_is_cleaned_of_what_no_model_can_use(world: World, site: HubSite) -> None:
    await world.post("/v1/pull", NEW)
    site.repos["org/repo"].commit = "b" * 40
    site.repos["org/repo"].files["m-Q4_0.gguf"] = b"GGUFnew"
    for name in ("user.new", "user.m"):  # with the second not there, nobody knows what the repository is for
        assert (await world.post("/v1/pull", {"model_name": name})).status == 200
    repo = world.folder / "hub" / "models--org--repo"
    (repo / "blobs" / "half.incomplete").write_bytes(b"123")

    told = (await world.post("/internal/cleanup-cache")).json
    assert told["dry_run"]
    cleaned = (await world.post("/internal/cleanup-cache", {"dry_run": False})).json

    assert {**cleaned, "dry_run": True} == told
    assert cleaned["total_bytes"] == len(BIG) + 3
    kinds = {item["type"]: item["path"] for item in cleaned["orphaned_files"]}
    assert kinds == {
        "superseded": str(repo / "snapshots" / COMMIT),
        "unfinished": str(repo / "blobs" / "half.incomplete"),
    }
    assert {item["belongs_to"] for item in cleaned["orphaned_files"]} == {"org/repo"}
    assert (await world.post("/v1/load", {"model_name": "user.new"})).status == 200
    assert (await world.post("/internal/cleanup-cache", {"dry_run": False})).json["orphaned_files"] == []
