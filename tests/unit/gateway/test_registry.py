"""Searching the hub, and asking it for newer files, with a stand-in of it behind a whole gateway."""

from __future__ import annotations

import pytest

from tests.hub_site import HubSite, Repo
from tests.unit.gateway.hubbed import NEW, models
from tests.unit.gateway.test_metrics import engine
from tests.unit.gateway.world import Starter, World

CHECK = "/v1/models/check-updates"
NEXT = "b" * 40


async def test_what_fits_is_found(world: World, site: HubSite) -> None:
    site.repos["org/repo"].tags = ["gguf", "chat"]
    site.repos["org/repo-onnx"] = Repo({"x.onnx": b""}, tags=["onnx"])

    everything = (await world.get("/v1/registry/search?query=%20repo%20")).json
    gguf = (await world.get("/api/v1/registry/search?q=repo&format=gguf&source=hf&limit=5")).json

    assert [one["repository_id"] for one in everything["results"]] == ["org/repo", "org/repo-onnx"]
    assert (everything["source"], everything["query"], everything["total"]) == ("huggingface", "repo", 2)
    assert "format" not in everything
    assert gguf["format"] == "gguf"
    assert gguf["results"] == [
        {
            "repository_id": "org/repo",
            "display_name": "repo",
            "source": "huggingface",
            "repository_type": "model",
            "description": "",
            "tags": ["gguf", "chat"],
            "task": "",
            "downloads": 4,
            "likes": 1,
            "has_gguf": True,
        }
    ]


@pytest.mark.parametrize(
    "query",
    ["", "query=ab", "query=%20a%20", *(f"query=abc&{more}" for more in ("limit=0", "limit=51", "limit=x",
     "limit=%C2%B2", "format=onnx", "source=modelscope"))],
)  # fmt: skip
async def test_a_query_that_means_nothing_is_refused(world: World, site: HubSite, query: str) -> None:
    reply = await world.get(f"/v1/registry/search?{query}")

    assert reply.status == 400
    assert reply.error["type"] == "invalid_request_error"
    assert site.asked == []


async def test_offline_nobody_is_asked(start: Starter) -> None:
    world = await start(engine)

    search = await world.get("/v1/registry/search?query=repo")
    check = await world.post(CHECK)

    assert (search.status, search.error["code"]) == (400, "lemond_offline")
    assert (check.status, check.json) == (409, {"error": "Cannot check model updates while offline=true"})


@pytest.mark.parametrize(("refused", "status"), [(429, 429), (401, 502), (404, 502)])
async def test_a_hub_that_refuses_is_told_of(world: World, site: HubSite, refused: int, status: int) -> None:
    site.refuse = [(refused, {"Retry-After": "9999"})] * 9

    reply = await world.get("/v1/registry/search?query=repo")

    assert (reply.status, reply.error["type"]) == (status, "registry_error")


async def test_a_model_with_newer_files_is_told_of_until_it_is_pulled(world: World, site: HubSite) -> None:
    await world.post("/v1/pull", NEW)
    assert (await world.post(CHECK)).json == {
        "status": "success",
        "updates_available": 0,
        "models": [],
        "unknown": {},
    }
    site.repos["org/repo"].commit = NEXT
    site.repos["org/repo"].files["m-Q4_0.gguf"] = b"GGUFnew"

    found = (await world.post(CHECK)).json

    assert (found["updates_available"], found["models"]) == (1, ["user.new"])
    assert (await models(world))["user.new"]["update_available"]
    await world.post("/v1/pull", {"model_name": "user.new"})
    assert not (await models(world))["user.new"]["update_available"]
    assert (await world.post(CHECK)).json["models"] == []


async def test_a_new_commit_that_changes_other_files_is_no_update(world: World, site: HubSite) -> None:
    await world.post("/v1/pull", NEW)
    site.repos["org/repo"].commit = NEXT
    site.repos["org/repo"].files["README.md"] = b"news"

    assert (await world.post(CHECK)).json["models"] == []


async def test_one_repository_that_is_gone_does_not_hide_the_others(world: World, site: HubSite) -> None:
    site.repos["org/other"] = Repo({"model.gguf": b"GGUF"})
    await world.post("/v1/pull", NEW)
    await world.post("/v1/pull", NEW | {"model_name": "user.other", "checkpoint": "org/other:model.gguf"})
    del site.repos["org/other"]
    site.repos["org/repo"].files["m-Q4_0.gguf"] = b"GGUFnew"
    site.repos["org/repo"].commit = NEXT

    found = (await world.post(CHECK)).json

    assert found["models"] == ["user.new"]
    assert "there is no 'org/other'" in found["unknown"]["user.other"]


async def test_a_hub_that_does_not_answer_is_told_of(world: World, site: HubSite) -> None:
    await world.post("/v1/pull", NEW)
    site.refuse = [(500, {})] * 9

    reply = await world.post(CHECK)

    assert reply.status == 500
    assert reply.json["error"].startswith("Model update check failed: ")
