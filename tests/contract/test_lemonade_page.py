"""The page about Lemonade's interface lists what is served, and what is left out and why."""

from __future__ import annotations

import re
from pathlib import Path

from aiohttp import web

from lemonpod.gateway.app import add_routes
from lemonpod.gateway.left_out import LEFT_OUT, LeftOut
from lemonpod.gateway.translate.endpoints import ENDPOINTS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "lemonade.md").read_text("utf-8")
OTHER_PREFIXES = ("/api/v0/", "/api/v1/", "/v0/")


def rows(title: str) -> list[list[str]]:
    text = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def documented(title: str) -> list[str]:
    return [asked for row in rows(title) for asked in re.findall(r"`([A-Z]+ [^`]+)`", row[0])]


def asked_of(item: LeftOut) -> list[str]:
    path = re.sub(r":[^}]+", "", item.path if item.at_root else f"/v1{item.path}")
    return [f"{method} {path}" for method in item.methods]


def test_what_is_left_out_is_in_the_table_with_its_reason() -> None:
    expected = [
        [", ".join(f"`{asked}`" for asked in asked_of(item)), item.reason, item.instead] for item in LEFT_OUT
    ]

    assert rows("Left out") == expected


def test_every_route_is_in_one_of_the_tables() -> None:
    router = web.Application().router
    add_routes(router)
    served = {
        f"{route.method} {route.resource.canonical}"
        for route in router.routes()
        if route.resource is not None
        and route.method != "HEAD"
        and not route.resource.canonical.startswith(OTHER_PREFIXES)
    }
    no_models = {
        "GET /v1/models/register",
        "GET /v1/models/check-updates",
    }  # which say that they are for POST

    assert {*documented("Served"), *documented("Left out")} == served - no_models
    assert len(documented("Served")) == len(set(documented("Served")))


def test_other_apis_are_below_the_other_prefix_too() -> None:
    assert {path for path in ENDPOINTS if path.startswith(OTHER_PREFIXES)} == {
        "/api/v1/messages",
        "/api/v1/messages/count_tokens",
    }
