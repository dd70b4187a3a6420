"""The `openai` npm client works unchanged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import LemonpodServer

pytestmark = pytest.mark.node

SCRIPT = Path(__file__).parent / "node"
NPM_TIMEOUT = 120


@pytest.fixture(scope="session")
def node_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our script and the client it imports."""
    if not (npm := shutil.which("npm")) or not shutil.which("node"):
        pytest.skip("no node here: apt-get install nodejs npm")
    folder = tmp_path_factory.mktemp("node")
    shutil.copytree(SCRIPT, folder, dirs_exist_ok=True)
    install = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    environ = os.environ | {"HOME": str(folder), "npm_config_cache": str(folder / "cache")}
    done = subprocess.run(
        install, cwd=folder, env=environ, capture_output=True, text=True, timeout=NPM_TIMEOUT, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"`npm install` in tests/e2e/node failed: {done.stderr.strip()[-300:]}")
    return folder


@pytest.mark.timeout(180)
def test_the_npm_client(node_project: Path, server_with_embeddings: LemonpodServer) -> None:
    done = subprocess.run(
        ["node", "client.mjs", f"{server_with_embeddings.url}/api/v1", "user.tiny", "user.embed"],
        cwd=node_project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["chat"]
    assert found["streamed"]
    assert found["chunks"] > 2
    assert found["completion"]
    assert found["embeddings"] == [64, 64]
    assert "user.tiny" in found["models"]
    assert found["unknown"] == {"type": "NotFoundError", "status": 404, "code": "model_not_found"}
