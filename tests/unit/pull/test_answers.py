"""Answers that are none of a hub's: told as such, by the real process for pulls."""

# ruff: noqa: ASYNC240 - nothing else waits for this loop

from __future__ import annotations

from pathlib import Path

import pytest

from lemonpod.errors import ModelPullError
from lemonpod.pull.pulls import Order
from tests.hub_site import HubSite, Repo
from tests.unit.pull.conftest import Puller

SMALL = b"GGUF small"
MAIN = Order(checkpoints={"main": "org/repo:m-Q4_0.gguf"})
NAME = "user.m"


@pytest.fixture(autouse=True)
def repo(site: HubSite) -> None:
    site.repos["org/repo"] = Repo({"m-Q4_0.gguf": SMALL})


@pytest.mark.parametrize(
    ("listing", "words"),
    [
        (b"<html>Log in to this network</html>", "Expecting value"),
        (b"[]", "it names no commit, or no files"),
        (b'{"sha": "%b", "siblings": [{}]}' % (b"a" * 40), "a file lacks its name, its size or its hash"),
        (b"[" * 100_000, "recursion"),
    ],
    ids=["portal", "list", "file", "deep"],
)
async def test_an_answer_that_is_no_listing(
    puller: Puller, site: HubSite, hub: Path, listing: bytes, words: str
) -> None:
    site.listing = listing
    with pytest.raises(ModelPullError, match=f"answer for 'org/repo' is none: .*{words}") as refused:
        await puller().pull(NAME, MAIN)
    assert str(refused.value.hint).endswith(site.url)
    assert not hub.exists()


async def test_an_error_whose_body_is_none(puller: Puller, site: HubSite) -> None:
    site.content = (404, {"Content-Type": "application/json"}, b"[]")
    with pytest.raises(ModelPullError, match="answered 404"):
        await puller().pull(NAME, MAIN)


async def test_a_name_below_another_files(puller: Puller, site: HubSite) -> None:
    site.repos["org/evil"] = Repo({"a": SMALL, "a/b.gguf": SMALL})
    with pytest.raises(ModelPullError, match=r"'a/b\.gguf' lies below another file"):
        await puller().pull(NAME, Order(checkpoints={"main": "org/evil"}))
    assert not site.contents()


async def test_cookies_are_not_kept(puller: Puller, site: HubSite) -> None:
    site.refuse = [(503, {"Set-Cookie": "\xe9=1"})]
    await puller().pull(NAME, MAIN)
    assert len(site.contents()) == 1
