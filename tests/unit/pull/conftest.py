from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from lemonpod.pull.pulls import Pulls
from tests.hub_site import HubSite, hub_site

Puller = Callable[..., Pulls]


@pytest.fixture
def site() -> Iterator[HubSite]:
    with hub_site() as site:
        yield site


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    return tmp_path / "hub"


@pytest.fixture
async def puller(site: HubSite, tmp_path: Path, hub: Path) -> AsyncIterator[Puller]:
    """Makes what fetches from the stand-in; more variables may be given."""
    async with AsyncExitStack() as stack:

        def make(**environ: str) -> Pulls:
            own = {"HF_ENDPOINT": site.url, "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
            pulls = Pulls(hub, own | environ, retry_after=0.01)
            stack.push_async_callback(pulls.aclose)
            return pulls

        yield make
