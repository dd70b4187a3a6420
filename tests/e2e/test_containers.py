"""A walk through real container engines: list, register, load, chat, look, unload, and nothing is left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import CHECKPOINT, REPOSITORY, LemonpodServer, wait_until
from tests.lab.engine import ContainerEngine
from tests.lab.lab import Lab
from tests.users import open_folder

RECIPE = "toolbox-llamacpp"
MODEL = "user.toolbox"
PUBLISHING = {"published": "{port}:8080", "published-here": "127.0.0.1:{port}:8080"}
"""What other recipes publish, which are for the same image."""
NAME = "lemonade-{recipe}-{port}"
ASK = {"model": MODEL, "messages": [{"role": "user", "content": "In one word, say OK."}], "max_tokens": 8}


def toolbox(
    engine: ContainerEngine, image: str, recipe: str = RECIPE, publish: str | None = None
) -> dict[str, Any]:
    """The manifest of the walkthrough: a local image in place of the named one, and no graphics processor.

    With `publish` it has a network of its own, and listens on port 8080 there.
    """
    network = ("--network", "host") if publish is None else ("-p", publish)
    host, port = ("127.0.0.1", "{port}") if publish is None else ("0.0.0.0", "8080")
    args = [
        *("run", "--rm", "--init", "--name", NAME),
        *("--device", "/dev/null", "--group-add", "video", "--security-opt", "seccomp=unconfined"),
        *("--security-opt", "label=disable", "-v", "{hf_cache}:/models:ro", *network),
        *(image, "llama-server", "-m", "/models/{checkpoint_relative:main}"),
        *("--host", host, "--port", port, "-c", "{ctx_size}"),
    ]
    stop = {"stop_command": engine.runtime, "stop_command_args": ["rm", "-f", NAME]}
    return {
        "recipe": recipe,
        "display_name": "Strix Halo llama.cpp toolbox",
        "api_contract_version": "1",
        "capabilities": ["chat_completion", "completion"],
        "health_probe": {
            "type": "http",
            "endpoint": "/health",
            "timeout_seconds": 60,
            "poll_interval_ms": 100,
        },
        "platforms": {"linux": {"cpu": {"command": engine.runtime, "args": args, **stop}}},
    }


@pytest.fixture
def server(engine: ContainerEngine, lab: Lab, tiny_gguf: Path) -> Iterator[LemonpodServer]:
    """A server that finds the engine by its environment, with folders that rootless containers may read."""
    image = lab.llama(engine)
    with open_folder() as folder:
        server = LemonpodServer(folder, more_environ=engine.env)
        server.prepare(tiny_gguf)
        server.write_manifest(toolbox(engine, image), "toolbox.json")
        for recipe, publish in PUBLISHING.items():
            server.write_manifest(toolbox(engine, image, recipe, publish), f"{recipe}.json")
        server.start()
        try:
            yield server
        finally:
            code = server.stop() if server.process is not None and server.process.poll() is None else 0
            assert code == 0, server.log
        assert "Traceback" not in server.log


def lemonpod(server: LemonpodServer, *words: str, client: bool = True) -> str:
    """One command of the CLI, as a user gives it."""
    where = ["--port", str(server.port)] if client else []
    done = subprocess.run(
        [sys.executable, "-m", "lemonpod", *words, *where],
        env=server.environ,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ours(engine: ContainerEngine) -> list[dict[str, Any]]:
    return [one for one in engine.containers() if RECIPE in json.dumps(one["Names"])]


@pytest.mark.timeout(180)
def test_the_walkthrough(engine: ContainerEngine, server: LemonpodServer) -> None:
    recipe = server.get("/api/v1/system-info")["recipes"][RECIPE]
    assert recipe["backends"][RECIPE]["state"] == "installed"
    assert recipe["backends"][RECIPE]["by_cli"] is None
    config = ("--config-dir", str(server.config))
    lemonpod(server, "register", MODEL, "--recipe", RECIPE, "--checkpoint", CHECKPOINT, *config, client=False)

    assert f"{MODEL} is ready after" in lemonpod(server, "load", MODEL)
    assert server.post("/api/v1/chat/completions", ASK)["choices"][0]["message"]["content"]

    (container,) = ours(engine)
    assert container["State"] == "running"
    assert container["Labels"]["lemonpod.model"] == MODEL
    assert RECIPE in engine.run_cli("ps", "--filter", "name=lemonade-")
    status = lemonpod(server, "status")
    assert engine.runtime in status
    (running,) = [one for one in server.get("/internal/engines")["engines"] if one["model_name"] == MODEL]
    assert running["driver"] == engine.runtime
    assert "listening" in lemonpod(server, "logs", MODEL)

    lemonpod(server, "unload")
    assert ours(engine) == []
    assert RECIPE not in engine.run_cli("ps", "-a", "--filter", "name=lemonade-")


@pytest.mark.timeout(180)
def test_the_leased_port_is_published(engine: ContainerEngine, server: LemonpodServer) -> None:
    if engine.rootless:
        pytest.skip("a rootless engine publishes ports only where its user may open /dev/net/tun")
    server.write_models(**{recipe: {"checkpoint": CHECKPOINT, "recipe": recipe} for recipe in PUBLISHING})
    for recipe in PUBLISHING:
        answer = server.post("/api/v1/chat/completions", ASK | {"model": f"user.{recipe}"})
        assert answer["choices"][0]["message"]["content"]
        (container,) = engine.containers()
        assert container["Labels"]["lemonpod.model"] == f"user.{recipe}"
    server.post("/api/v1/unload", {})
    assert engine.containers() == []


@pytest.mark.timeout(180)
def test_term_ends_a_start_under_way(engine: ContainerEngine, server: LemonpodServer, lab: Lab) -> None:
    """L21: the container runs, and its probe is not answered yet."""
    document = toolbox(engine, lab.llama(engine))
    block = document["platforms"]["linux"]["cpu"]
    block["args"] = [*block["args"][: block["args"].index("llama-server")], "sleep", "600"]
    server.write_manifest(document, "toolbox.json")
    server.write_models(toolbox={"checkpoint": CHECKPOINT, "recipe": RECIPE})

    with ThreadPoolExecutor() as clients:
        asking = clients.submit(server.error, "/api/v1/load", {"model_name": MODEL})
        wait_until(
            lambda: [one for one in ours(engine) if one["State"] == "running"], within=60, what="it runs"
        )
        assert server.stop() == 0
        assert asking.result()[0] == 503

    assert ours(engine) == []


@pytest.mark.timeout(180)
def test_a_killed_server_is_followed_by_one_that_goes_on(
    engine: ContainerEngine, server: LemonpodServer
) -> None:
    server.write_models(toolbox={"checkpoint": CHECKPOINT, "recipe": RECIPE})
    server.post("/api/v1/load", {"model_name": MODEL})
    (before,) = ours(engine)
    server.kill()
    assert ours(engine)[0]["State"] == "running"

    server.start()
    wait_until(lambda: server.loaded() and server.loaded()[0]["loaded"], within=30, what="it is taken over")
    assert server.post("/api/v1/chat/completions", ASK)["choices"]
    (after,) = ours(engine)
    assert after["Id"] == before["Id"]
    server.post("/api/v1/unload", {})
    assert ours(engine) == []


@pytest.mark.timeout(180)
def test_a_killed_server_with_another_plan_now(engine: ContainerEngine, server: LemonpodServer) -> None:
    server.write_models(toolbox={"checkpoint": CHECKPOINT, "recipe": RECIPE})
    server.post("/api/v1/load", {"model_name": MODEL})
    server.kill()
    server.write_models(
        toolbox={"checkpoint": CHECKPOINT, "recipe": RECIPE, "recipe_options": {"ctx_size": 512}}
    )

    server.start()
    wait_until(lambda: ours(engine) == [], within=30, what="what nobody goes on with is removed")
    assert server.loaded() == []


@pytest.mark.timeout(180)
def test_a_runtime_that_is_there_only_later(engine: ContainerEngine, server: LemonpodServer) -> None:
    """What a killed server left is gone on with all the same, once its runtime answers."""
    server.write_models(toolbox={"checkpoint": CHECKPOINT, "recipe": RECIPE})
    server.post("/api/v1/load", {"model_name": MODEL})
    (before,) = ours(engine)
    server.kill()
    engine.stop_service()
    server.start()
    assert server.loaded() == []
    engine.start_service()
    wait_until(lambda: server.loaded() and server.loaded()[0]["loaded"], within=40, what="it is taken over")
    assert ours(engine)[0]["Id"] == before["Id"]
    server.post("/api/v1/unload", {})
    assert ours(engine) == []
