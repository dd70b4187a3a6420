"""A whole gateway with a stand-in of the hub behind it: fixtures, by way of conftest.py."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.engine import FakeDriver
from tests.hub_site import HubSite, Repo, hub_site
from tests.unit.gateway.world import RECIPE, Starter, World

BIG = b"GGUF" + os.urandom(1_000_000)
NEW = {"model_name": "user.new", "recipe": RECIPE, "checkpoint": "org/repo:Q4_0"}
SELF_MANAGED = {
    "self.json": json.dumps(
        {
            "recipe": "self",
            "display_name": "Self",
            "api_contract_version": "1",
            "capabilities": ["chat_completion"],
            "model_management": "self_managed",
            "platforms": {"linux": {"cpu": {"command": "x", "args": ["{checkpoint:main}"]}}},
        }
    )
}


async def never(*_: Any) -> None:
    raise AssertionError("the engine is asked nothing")


@pytest.fixture
def site() -> Iterator[HubSite]:
    with hub_site() as site:
        site.repos["org/repo"] = Repo(
            {"m-Q4_0.gguf": BIG, "m-Q8_0.gguf": b"GGUF8", "mmproj-F16.gguf": b"GGUFp"}
        )
        site.repos["org/repo"].files["model.gguf"] = b"GGUF"
        yield site


@pytest.fixture
async def world(start: Starter, site: HubSite) -> World:
    args = {"args": ["{checkpoint:main}"], "command": "engine"}
    return await start(
        never,
        drivers=[FakeDriver()],
        environ={"HF_ENDPOINT": site.url},
        files=SELF_MANAGED,
        platforms={"linux": {"cpu": args}},
        custom_options=[{"name": "speed", "cli_flag": "--speed", "default_value": 1, "help": "x"}],
    )


async def models(world: World, query: str = "") -> dict[str, dict[str, Any]]:
    data = (await world.get(f"/v1/models{query}")).json["data"]
    return {item["id"]: item for item in data}
