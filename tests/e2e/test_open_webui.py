"""Open WebUI's own requests, over its connections to Ollama and to OpenAI's API, as its source makes them."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from tests.e2e.conftest import LemonpodServer, wait_until

HEADERS = {
    "Content-Type": "application/json",
    "Authorization": "Bearer ",
    "X-OpenWebUI-User-Name": "A Person",
    "X-OpenWebUI-User-Id": "1f3c",
    "X-OpenWebUI-User-Email": "a@person.example",
    "X-OpenWebUI-User-Role": "admin",
    "User-Agent": "Python/3.11 aiohttp/3.12",
    "Accept": "*/*",
    "Accept-Encoding": "gzip, deflate",
}
# What it makes of the settings of a chat.
OPTIONS = {"temperature": 0.8, "num_predict": 8, "num_ctx": 2048, "repeat_penalty": 1.1, "stop": ["Q:"]}


class OpenWebUi:
    def __init__(self, url: str) -> None:
        self._url = url

    def get(self, path: str) -> Any:
        return json.loads(self._read(path, None)[1])

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return json.loads(self._read(path, body)[1])

    def lines(self, path: str, body: Mapping[str, Any]) -> tuple[str, list[str]]:
        content_type, data = self._read(path, body)
        return content_type, [line for line in data.decode().splitlines() if line]

    def _read(self, path: str, body: Mapping[str, Any] | None) -> tuple[str, bytes]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, HEADERS)
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.headers["Content-Type"], response.read()


@pytest.fixture
def web(server_with_embeddings: LemonpodServer) -> OpenWebUi:
    web = OpenWebUi(server_with_embeddings.url)
    wait_until(lambda: len(web.get("/api/tags")["models"]) == 2, within=5, what="both models are known")
    return web


def test_its_connection_to_ollama(web: OpenWebUi) -> None:
    assert web.get("/api/version")["version"]
    models = {model["model"]: model for model in web.get("/api/tags")["models"]}
    # It adds the tag to a name that has none, and looks for that name among them.
    assert models["user.tiny:latest"]["name"] == "user.tiny:latest"
    assert web.get("/api/ps")["models"] == []
    assert "completion" in web.post("/api/show", {"model": "user.tiny:latest"})["capabilities"]


def test_a_chat_over_ollama(web: OpenWebUi) -> None:
    chat = {
        "model": "user.tiny:latest",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "the lemon"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"index": 0, "id": "call_1", "function": {"name": "pick", "arguments": {"ripe": True}}}
                ],
            },
            {"role": "tool", "content": "done", "tool_call_id": "call_1"},
        ],
        "options": OPTIONS,
        "stream": True,
        "keep_alive": "5m",
        "format": "",
    }

    content_type, lines = web.lines("/api/chat", chat)
    *words, last = [json.loads(line) for line in lines]
    whole = web.post("/api/chat", chat | {"stream": False})

    assert content_type == "application/x-ndjson"
    assert "".join(word["message"]["content"] for word in words)
    assert last["done"]
    assert last["eval_count"]
    assert whole["message"]["content"]
    [model] = web.get("/api/ps")["models"]
    assert datetime.fromisoformat(model["expires_at"]).timestamp() > datetime.now().timestamp()


def test_a_title_over_ollama(web: OpenWebUi) -> None:
    body = {"model": "user.tiny:latest", "prompt": "a title", "stream": False, "options": {"num_predict": 4}}

    assert web.post("/api/generate", body)["response"]


def test_unload_over_ollama(web: OpenWebUi) -> None:
    web.post("/api/generate", {"model": "user.tiny:latest", "prompt": "", "stream": False})
    web.post("/api/generate", {"model": "user.tiny:latest", "keep_alive": 0, "prompt": ""})

    assert web.get("/api/ps")["models"] == []


def test_embeddings_over_ollama(web: OpenWebUi) -> None:
    vectors = web.post("/api/embed", {"input": ["the lemon", "a pod"], "model": "user.embed"})["embeddings"]
    one = web.post("/api/embeddings", {"model": "user.embed:latest", "prompt": "the lemon"})["embedding"]

    assert [len(vector) for vector in vectors] == [64, 64]
    assert len(one) == 64


def test_its_connection_to_openai(web: OpenWebUi) -> None:
    assert {model["id"] for model in web.get("/v1/models")["data"]} == {"user.tiny", "user.embed"}
    chat = {
        "stream": True,
        "model": "user.tiny",
        "messages": [{"role": "user", "content": "the lemon"}],
        "max_tokens": 8,
        "stream_options": {"include_usage": True},
    }

    content_type, lines = web.lines("/v1/chat/completions", chat)
    title = web.post("/v1/chat/completions", chat | {"stream": False, "stream_options": None})
    vectors = web.post("/v1/embeddings", {"input": ["the lemon", "a pod"], "model": "user.embed"})["data"]

    assert content_type.startswith("text/event-stream")
    assert lines[-1] == "data: [DONE]"
    assert title["choices"][0]["message"]["content"]
    assert [len(vector["embedding"]) for vector in vectors] == [64, 64]
