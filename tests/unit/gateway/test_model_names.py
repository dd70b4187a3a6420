"""A model's options and further names, apart from loading it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.gateway.hubbed import models
from tests.unit.gateway.test_gates import MODEL, answer
from tests.unit.gateway.world import RECIPE, Starter, World


async def test_options_have_layers(world: World) -> None:
    before = (await world.get("/v1/models/m/options")).json
    assert (before["model_name"], before["recipe"], before["saved"]) == ("user.m", RECIPE, {})
    assert before["effective"] == before["defaults"]
    assert (before["effective"]["speed"], before["effective"]["model_name"]) == (1, "user.m")
    dry = (await world.post("/v1/models/m/options", {"ctx_size": 99, "dry_run": True})).json
    assert (dry["saved"], dry["resolved_ctx_size"]) == ({}, 99)
    saved = (await world.post("/v1/models/m/options", {"ctx_size": 99, "speed": 3})).json
    assert saved["saved"] == {"ctx_size": 99, "speed": 3}
    after = (await world.post("/v1/models/m/options", {"speed": None})).json
    assert after == (await world.get("/v1/models/m/options")).json
    assert (after["saved"], after["effective"]["speed"], after["defaults"]["ctx_size"]) == (
        {"ctx_size": 99},
        1,
        before["defaults"]["ctx_size"],
    )
    # A load that takes a saved value back does so for itself.
    await world.post("/v1/pull", {"model": "m"})
    await world.post("/v1/load", {"model": "m", "ctx_size": None, "speed": 4, "save_options": True})
    assert (await world.get("/v1/models/m/options")).json["saved"] == {"ctx_size": 99, "speed": 4}
    reset = await world.request("DELETE", "/v1/models/m/options")
    assert reset.json == before


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"nope": 1}, "has no option 'nope'"),
        ({"ctx_size": "many"}, "must be a whole number"),
        ({"ctx_size": -2}, "must be a whole number"),
        ({"args": {}}, "'args' must be a text or a list"),
        ({"args": "'"}, "'args' does not split"),
        ({"auto_evict": "yes"}, "'auto_evict' must be true or false"),
        ({"pinned": True}, "is an option of a load"),
        ({"dry_run": 1}, "'dry_run' must be true or false"),
    ],
)
async def test_options_that_are_none(world: World, body: dict[str, Any], words: str) -> None:
    reply = await world.post("/v1/models/m/options", body)
    assert reply.status == 400
    assert words in reply.json["error"]
    assert not (world.folder / "recipe_options.json").exists()


async def test_a_backends_own_words_for_options_are_read_too(start: Starter) -> None:
    world = await start(answer, models={"own": MODEL | {"recipe": "llamacpp"}})
    reply = await world.post("/v1/models/own/options", {"llamacpp_args": {}})
    assert reply.status == 400
    assert "'args' must be a text or a list" in reply.json["error"]
    assert (await world.post("/v1/models/own/options", {"llamacpp_args": "--jinja"})).status == 200


async def test_an_alias_is_a_name_everywhere(world: World) -> None:
    await world.post("/v1/pull", {"model": "m"})
    added = await world.post("/internal/aliases", {"alias": "team/fast", "target": "user.m"})
    assert added.json == {"status": "ok", "alias": "team/fast", "target": "user.m"}
    await world.post("/internal/aliases", {"alias": "later", "model": "org/none"})
    assert (await world.get("/internal/aliases")).json == {
        "aliases": [
            {"alias": "team/fast", "target": "user.m", "downloaded": True, "recipe": RECIPE},
            {"alias": "later", "target": "org/none", "downloaded": False, "recipe": None},
        ]
    }
    listed = await models(world)
    assert list(listed) == ["user.m", "team/fast"]
    assert {**listed["user.m"], "id": "team/fast"} == listed["team/fast"]
    assert (await world.get("/v1/models/team/fast")).json["id"] == "team/fast"
    assert (await world.post("/v1/load", {"model": "team/fast"})).json["model_name"] == "user.m"
    removed = await world.request("DELETE", "/internal/aliases/team/fast")
    assert removed.json == {"status": "deleted"}
    assert (await world.request("DELETE", "/internal/aliases/team/fast")).status == 404
    assert (await world.get("/v1/models/team/fast")).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"alias": "a"},
        {"alias": 1, "target": "m"},
        {"alias": "m", "target": "x"},
        {"alias": "M", "target": "x"},
        {"alias": "m:latest", "target": "x"},
        {"alias": "user.a", "target": "m"},
    ],
)
async def test_an_alias_that_cannot_be(world: World, body: dict[str, Any]) -> None:
    reply = await world.post("/internal/aliases", body)
    assert reply.status == 400
    assert isinstance(reply.json["error"], str)
