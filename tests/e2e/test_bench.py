"""`lemonpod bench` against a real engine: both ways are timed, and the engine stays as it is."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.e2e.conftest import REPOSITORY, LemonpodServer


def run(server: LemonpodServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lemonpod", "bench", *arguments, "--port", str(server.port)],
        env=server.environ,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_both_ways_are_timed_and_the_engine_is_left_as_it_is(lemonpod_server: LemonpodServer) -> None:
    server = lemonpod_server
    server.post("/api/v1/load", {"model_name": "tiny", "ctx_size": 512})
    [before] = server.loaded()

    done = run(server, "tiny", "--requests", "3", "--max-tokens", "8", "--json")

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["model"], said["requests"]) == ("user.tiny", 3)
    for name in ("time_to_first_token", "tokens_per_second", "whole_answer", "answer_of_one_token"):
        for way in ("gateway", "direct"):
            spread = said[name][way]
            assert 0 < spread["least"] <= spread["median"] <= spread["most"]
    [after] = server.loaded()
    assert (after["pid"], after["recipe_options"]) == (before["pid"], before["recipe_options"])


def test_a_model_is_loaded_first_and_the_table_says_what_was_measured(
    lemonpod_server: LemonpodServer,
) -> None:
    done = run(lemonpod_server, "tiny", "--requests", "2", "--max-tokens", "4")

    assert done.returncode == 0, done.stderr
    assert "user.tiny by tiny-llama, 2 answers each way" in done.stdout
    assert "time to first token" in done.stdout
    assert "answer of one token" in done.stdout
    assert "Asking user.tiny: 2 of 2 answers each way\n" in done.stderr
    assert "Asking user.tiny: 10 of 10 answers of one token each way\n" in done.stderr
    assert len(lemonpod_server.loaded()) == 1


def test_what_is_no_chat_model_is_said(server_with_embeddings: LemonpodServer) -> None:
    done = run(server_with_embeddings, "embed")

    assert done.returncode == 1
    assert "user.embed is no chat model" in done.stderr
    assert server_with_embeddings.loaded() != []


def test_an_unknown_model_is_the_servers_error(lemonpod_server: LemonpodServer) -> None:
    done = run(lemonpod_server, "nothing-of-the-kind")

    assert done.returncode == 1
    assert "nothing-of-the-kind" in done.stderr
