"""A model that is only registered: the first request fetches it from a stand-in of the hub, then answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import RECIPE, REPOSITORY, LemonpodServer
from tests.hub_site import HubSite, Repo, hub_site

ASKING = {"model": "user.far", "messages": [{"role": "user", "content": "lemon"}], "max_tokens": 2}


@pytest.fixture
def site(tiny_gguf: Path) -> Iterator[HubSite]:
    with hub_site() as site:
        site.repos["org/far"] = Repo({"far-Q4_0.gguf": tiny_gguf.read_bytes()})
        yield site


@pytest.fixture
def server(lemonpod_server: LemonpodServer, site: HubSite, tmp_path: Path) -> LemonpodServer:
    """With a cache where HF_HUB_CACHE says, and nothing in it."""
    lemonpod_server.stop()
    lemonpod_server.write_models(far={"checkpoint": "org/far:Q4_0", "recipe": RECIPE})
    lemonpod_server.more_environ = {
        "HF_ENDPOINT": site.url,
        "HF_HUB_CACHE": str(tmp_path / "elsewhere"),
        "HF_HUB_OFFLINE": "0",
    }
    lemonpod_server.start()
    return lemonpod_server


def test_the_first_request_fetches_the_model(server: LemonpodServer, site: HubSite, tmp_path: Path) -> None:
    answer = server.post("/v1/chat/completions", ASKING)
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert len(site.contents()) == 1
    assert len(list((tmp_path / "elsewhere").glob("models--org--far/snapshots/*/far-Q4_0.gguf"))) == 1


def test_the_command_fetches_the_model(server: LemonpodServer, site: HubSite) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lemonpod", "load", "far", "--port", str(server.port)],
        env=server.environ,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("user.far is ready")
    assert len(site.contents()) == 1
