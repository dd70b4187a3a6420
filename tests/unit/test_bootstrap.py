"""What another setting changes in a server that runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lemonpod.bootstrap import make_inventory, use_settings
from lemonpod.broker.ports import PortBroker
from lemonpod.config import Folders, load_settings, settle
from lemonpod.engine.pool import Pool
from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import HubOfflineError
from lemonpod.pull.pulls import Pulls
from tests.fakes.engine import FakeDriver


async def test_settings_are_used_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # restored behind the test
    environ, folders = {"HOME": str(tmp_path)}, Folders(cache=tmp_path, config=tmp_path)
    (tmp_path / "user_models.json").write_text(
        '{"m": {"checkpoint": "org/repo:m.gguf", "recipe": "llamacpp"}}'
    )
    inventory = make_inventory(load_settings(environ, folders), environ)
    inventory.refresh()
    pool = Pool(inventory, [FakeDriver()], PortBroker(10_000, 10_100), EngineSettings(), max_loaded=1)
    pulls = Pulls(tmp_path, environ)
    document = {
        "log_level": "debug",
        "max_loaded_models": 3,
        "offline": True,
        "ctx_size": 2048,
        "llamacpp": {"args": "--no-mmap"},
    }

    use_settings(settle([("test", document)], environ, folders), inventory, pool, pulls)

    assert logging.getLogger().level == logging.DEBUG
    assert pool.max_loaded == 3
    with pytest.raises(HubOfflineError):
        pulls.check_online()
    options = inventory.options(inventory.find("m"), {}).values
    assert (options["ctx_size"].value, options["args"].value) == (2048, "--no-mmap")

    use_settings(settle([], environ, folders), inventory, pool, pulls)

    pulls.check_online()
    await pool.aclose()
