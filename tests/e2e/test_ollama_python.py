"""The `ollama` Python client works unchanged."""

from __future__ import annotations

import base64
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import LemonpodServer, wait_until

ollama = pytest.importorskip("ollama", reason="pip install '.[dev]'")

MODEL = "user.tiny:latest"


@pytest.fixture
def client(server_with_embeddings: LemonpodServer) -> Iterator[Any]:
    wait_until(
        lambda: len(server_with_embeddings.get("/api/v1/models")["data"]) == 2,
        within=5,
        what="both models are known",
    )
    with ollama.Client(server_with_embeddings.url, timeout=30) as client:
        yield client


def test_chat(client: Any) -> None:
    messages = [{"role": "user", "content": "the lemon"}]

    answer = client.chat(MODEL, messages, options={"num_predict": 8, "temperature": 0, "num_ctx": 512})

    assert answer.message.content
    assert answer.model == MODEL
    assert answer.done
    assert answer.done_reason in ("stop", "length")
    assert answer.eval_count
    assert answer.prompt_eval_count
    assert answer.total_duration
    assert answer.load_duration
    assert answer.eval_duration


def test_streamed_chat(client: Any) -> None:
    messages = [{"role": "user", "content": "the lemon"}]

    *words, last = client.chat(
        MODEL, messages, stream=True, options={"num_predict": 8}, keep_alive="5m", think=False
    )

    assert "".join(word.message.content or "" for word in words)
    assert not any(word.done for word in words)
    assert last.done
    assert last.eval_count
    assert last.total_duration


def test_a_talk_with_tools(client: Any) -> None:
    """The tiny model calls none, but the engine takes what the client says of them."""
    call = {"function": {"name": "pick", "arguments": {"ripe": True}}}
    talk = [
        {"role": "user", "content": "pick a lemon"},
        {"role": "assistant", "content": "", "thinking": "a lemon", "tool_calls": [call]},
        {"role": "tool", "content": "done", "tool_name": "pick"},
    ]

    def pick(ripe: bool) -> str:
        """Pick a lemon.

        Args:
            ripe: whether it must be ripe
        """
        return "done"

    assert client.chat(MODEL, talk, tools=[pick], options={"num_predict": 4}).message.content


def test_a_stream_that_is_left_early(client: Any, server_with_embeddings: LemonpodServer) -> None:
    stream = client.generate(MODEL, "the", stream=True, options={"num_predict": 100_000})
    assert next(stream).response
    stream.close()

    def is_idle() -> bool:
        [item] = server_with_embeddings.loaded()
        return not item["is_busy"]

    wait_until(is_idle, within=5, what="the engine works for nobody")
    [record] = server_with_embeddings.get("/internal/activity")["requests"]
    assert (record["path"], record["ending"]) == ("/api/generate", "client_left")


def test_generate(client: Any) -> None:
    answer = client.generate(MODEL, "the lemon", system="be brief", options={"num_predict": 8, "stop": ["x"]})
    raw = client.generate(MODEL, "the lemon", raw=True, options={"num_predict": 8})

    assert answer.response
    assert raw.response
    assert (raw.prompt_eval_count or 0) < (answer.prompt_eval_count or 0)


def test_embeddings(client: Any) -> None:
    assert [len(vector) for vector in client.embed("user.embed", ["the lemon", "a pod"]).embeddings] == [
        64
    ] * 2
    assert len(client.embeddings("user.embed", "the lemon").embedding) == 64


def test_load_and_unload(client: Any) -> None:
    assert client.generate(MODEL, "").done_reason == "load"
    [model] = client.ps().models
    assert model.model == MODEL
    assert client.chat(MODEL, [], keep_alive=0).done_reason == "unload"
    assert not client.ps().models


def test_unloaded_after_the_answer(client: Any) -> None:
    client.generate(MODEL, "the", options={"num_predict": 2}, keep_alive=0)

    wait_until(lambda: not client.ps().models, within=5, what="nobody wants the model")


def test_models(client: Any) -> None:
    listed = {model.model: model for model in client.list().models}

    assert listed.keys() == {"user.tiny:latest", "user.embed:latest"}
    assert (listed[MODEL].size or 0) > 100_000
    assert client.show(MODEL).capabilities == ["completion"]
    assert client.show("user.embed").capabilities == ["embedding"]


def test_what_goes_wrong(client: Any, server_with_embeddings: LemonpodServer) -> None:
    with pytest.raises(ollama.ResponseError, match="'nobody' was not found") as unknown:
        client.chat("nobody", [{"role": "user", "content": "hello"}])
    assert unknown.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="Embeddings not supported by cpu"):
        client.embed(MODEL, "the lemon")
    with pytest.raises(ollama.ResponseError, match="was not found"):
        client.show("nobody")
    with pytest.raises(ollama.ResponseError, match="not supported"):
        client.copy("a", "b")
    with urllib.request.urlopen(f"{server_with_embeddings.url}/api/version") as version:
        assert b"version" in version.read()
    image = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    with pytest.raises(ollama.ResponseError):  # the tiny model has no eyes
        client.generate(MODEL, "what is this", images=[image])
