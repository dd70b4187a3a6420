"""The main job on real input: a manifest becomes an engine that answers, and is gone when it is unloaded."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.conftest import (
    CHECKPOINT,
    RECIPE,
    REPOSITORY,
    LemonpodServer,
    is_running,
    manifest,
    processes_naming,
    wait_until,
)

MODEL = "user.tiny"
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "the lemon"}], "max_tokens": 8}
ENDLESS = {"model": MODEL, "prompt": "the", "max_tokens": 100_000, "ignore_eos": True, "stream": True}


def test_a_manifest_becomes_an_engine_that_answers(lemonpod_server: LemonpodServer) -> None:
    server = lemonpod_server

    recipe = server.get("/api/v1/system-info")["recipes"][RECIPE]
    assert recipe["is_external"] is True
    assert recipe["backends"][RECIPE]["state"] == "installed"
    assert MODEL in [model["id"] for model in server.get("/api/v1/models")["data"]]

    pid = server.load(MODEL)
    assert is_running(pid)

    answer = server.post("/api/v1/chat/completions", CHAT)
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] > 0

    status, refused = server.error("/api/v1/embeddings", {"model": MODEL, "input": "the lemon"})
    assert status == 400
    assert refused["error"]["type"] == "unsupported_operation"
    assert refused["error"]["message"] == "Embeddings not supported by cpu"

    server.post("/api/v1/unload", {})
    wait_until(lambda: not is_running(pid), within=10, what="the unloaded engine is gone")
    assert server.loaded() == []


def test_the_first_request_loads_the_model(lemonpod_server: LemonpodServer) -> None:
    """Also by its bare name, and by Ollama's."""
    for name in (MODEL, "tiny", "tiny:latest"):
        assert lemonpod_server.post("/v1/chat/completions", CHAT | {"model": name})["choices"]
    assert len(lemonpod_server.loaded()) == 1


def test_a_stream_arrives_piece_by_piece(lemonpod_server: LemonpodServer) -> None:
    with lemonpod_server.open("/api/v1/chat/completions", CHAT | {"stream": True}) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert response.headers["X-Accel-Buffering"] == "no"
        lines = [line.strip() for line in response if line.startswith(b"data:")]

    assert lines[-1] == b"data: [DONE]"
    assert len(lines) > 3


def test_a_client_that_leaves_ends_the_engines_work(lemonpod_server: LemonpodServer) -> None:
    server = lemonpod_server
    pid = server.load(MODEL)

    with server.open("/api/v1/completions", ENDLESS) as response:
        assert response.readline().startswith(b"data:")
        assert server.loaded()[0]["is_busy"]

    wait_until(lambda: not server.loaded()[0]["is_busy"], within=5, what="the engine is idle again")
    assert server.loaded()[0]["pid"] == pid


def test_options_of_a_load_reach_the_engine(lemonpod_server: LemonpodServer) -> None:
    body = {"model_name": MODEL, "ctx_size": 512, "args": ["--alias", "other name"]}
    lemonpod_server.post("/api/v1/load", body)

    command = lemonpod_server.loaded()[0]["launch_command"]

    assert command[command.index("--ctx-size") + 1] == "512"
    assert command[-2:] == ["--alias", "other name"]


def test_an_engine_that_refuses_its_flags_says_why(lemonpod_server: LemonpodServer) -> None:
    status, refused = lemonpod_server.error("/api/v1/load", {"model_name": MODEL, "args": "--no-such-flag"})

    assert status == 500
    assert "--no-such-flag: this server has no such flag" in json.dumps(refused)


def test_the_shipped_recipe_serves_all_that_it_declares(
    engine_program: Path, lemonpod_server: LemonpodServer
) -> None:
    """Each model is deployed in one mode, and the mode adds its flags."""
    server = lemonpod_server
    shared = {"checkpoint": CHECKPOINT, "recipe": "llama-cpu"}
    server.write_models(
        chat=shared,
        embed=shared | {"labels": ["embeddings"], "recipe_options": {"args": "--pooling mean"}},
        rank=shared | {"labels": ["reranking"]},
    )

    chat = CHAT | {"model": "chat"}
    assert server.post("/v1/chat/completions", chat)["choices"][0]["message"]["content"]
    assert server.post("/v1/completions", {"model": "chat", "prompt": "the", "max_tokens": 4})["choices"]
    asked = {"model": "chat", "input": "the lemon", "max_output_tokens": 4}
    assert server.post("/v1/responses", asked)["object"] == "response"
    assert server.post("/v1/tokenize", {"model": "chat", "content": "a lemon"})["tokens"]
    assert server.get("/v1/slots?model=chat")[0]["id"] == 0
    answer = server.post("/v1/embeddings", {"model": "user.embed", "input": ["a lemon", "a pod"]})
    assert [len(item["embedding"]) for item in answer["data"]] == [64, 64]
    ranked = server.post("/v1/rerank", {"model": "rank", "query": "a", "documents": ["lemon", "pod"]})
    assert len(ranked["results"]) == 2
    status, refused = server.error("/v1/chat/completions", CHAT | {"model": "embed"})
    assert (status, refused["error"]["type"]) == (400, "invalid_request_error")


def test_an_edited_manifest_is_used_by_the_next_load(lemonpod_server: LemonpodServer) -> None:
    """F07: no restart, within two seconds; what runs keeps what it was started from."""
    server = lemonpod_server
    pid = server.load(MODEL)

    server.write_manifest(manifest(display_name="Renamed"))

    def renamed() -> bool:
        recipe = server.get("/api/v1/system-info")["recipes"][RECIPE]
        return bool(recipe["display_name"] == "Renamed")

    wait_until(renamed, within=4, what="the edit is seen")
    assert server.loaded()[0]["pid"] == pid


def test_a_broken_edit_is_shown_and_changes_nothing(lemonpod_server: LemonpodServer) -> None:
    server = lemonpod_server
    assert rejected(server) == []

    path = server.write_manifest(json.dumps(manifest(), indent=2).replace('"args"', '"arguments"'))

    def shown() -> bool:
        return any(item["path"] == str(path) for item in rejected(server))

    wait_until(shown, within=4, what="the refused file is listed")
    assert "unknown field 'arguments'" in json.dumps(rejected(server))
    assert "unknown field 'arguments'" in server.log
    assert server.post("/v1/chat/completions", CHAT)["choices"]


def test_a_manifest_that_was_never_valid_is_listed(lemonpod_server: LemonpodServer) -> None:
    server = lemonpod_server

    server.write_manifest(manifest(recipe="other", capabilities=["telepathy"]), "other.json")

    def listed() -> bool:
        return "unknown capability 'telepathy'" in json.dumps(rejected(server))

    wait_until(listed, within=4, what="the refused file is listed")
    assert "other" not in server.get("/api/v1/system-info")["recipes"]


def rejected(server: LemonpodServer) -> list[dict[str, str]]:
    found: list[dict[str, str]] = server.get("/api/v1/system-info")["rejected_manifests"]
    return found


def test_term_ends_the_server_and_its_engine(lemonpod_server: LemonpodServer) -> None:
    """L21: while an answer streams."""
    server = lemonpod_server
    pid = server.load(MODEL)

    with server.open("/v1/completions", ENDLESS) as response:
        assert response.readline().startswith(b"data:")
        assert server.stop() == 0

    assert not is_running(pid)


@pytest.mark.parametrize("script", ["sleep 600", "trap '' TERM; while :; do sleep 0.1; done"])
def test_term_ends_a_start_under_way(lemonpod_server: LemonpodServer, script: str) -> None:
    """L21: the engine runs, and its probe is not answered yet; who waits for it is told."""
    server = lemonpod_server
    marker = f"-c{server.root}"  # by which the fixture finds what is left
    server.write_manifest(
        manifest(platforms={"linux": {"cpu": {"command": "sh", "args": ["-c", script, marker]}}})
    )
    wait_until(lambda: "changed; the next load takes it" in server.log, within=4, what="the edit is seen")

    with ThreadPoolExecutor() as clients:
        asking = clients.submit(server.error, "/v1/chat/completions", CHAT)
        wait_until(lambda: processes_naming(marker), within=10, what="the engine runs")
        assert server.stop() == 0
        status, told = asking.result()

    assert (status, told["error"]["type"]) == (503, "engine_stopped")
    assert processes_naming(marker) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_end_it_too(lemonpod_server: LemonpodServer, number: int) -> None:
    server = lemonpod_server
    pid = server.load(MODEL)
    assert server.process is not None

    server.process.send_signal(number)

    assert server.process.wait(15) == 0
    assert not is_running(pid)


def test_what_a_killed_server_left_is_ended_by_the_next(lemonpod_server: LemonpodServer) -> None:
    server = lemonpod_server
    orphan = server.load(MODEL)
    server.kill()
    assert is_running(orphan)

    server.start()

    wait_until(lambda: not is_running(orphan), within=15, what="the orphan is ended")
    assert server.load(MODEL) != orphan


def test_two_servers_do_not_end_each_others_engines(
    lemonpod_server: LemonpodServer, tmp_path: Path, tiny_gguf: Path
) -> None:
    """Engines belong to the cache folder of the server that started them."""
    pid = lemonpod_server.load(MODEL)
    second = LemonpodServer(tmp_path / "second")
    second.prepare(tiny_gguf)
    second.start()
    other = second.load(MODEL)

    assert second.stop() == 0

    assert not is_running(other)
    assert is_running(pid)
    assert lemonpod_server.post("/v1/chat/completions", CHAT)["choices"]


def test_a_taken_port_is_told_in_one_line(lemonpod_server: LemonpodServer, tmp_path: Path) -> None:
    port = str(lemonpod_server.port)

    second = subprocess.run(
        [sys.executable, "-m", "lemonpod", "serve", str(tmp_path / "other"), "--port", port],
        env=lemonpod_server.environ,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert second.returncode == 3
    assert port in second.stderr
    assert "Traceback" not in second.stderr
