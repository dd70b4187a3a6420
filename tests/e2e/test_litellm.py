"""LiteLLM as a client: over OpenAI's API, over Ollama's and over Anthropic's."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import LemonpodServer, wait_until

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices
litellm = pytest.importorskip("litellm", reason="pip install '.[dev]'")

pytestmark = pytest.mark.filterwarnings("ignore")  # it warns of much while it imports its parts

HELLO = [{"role": "user", "content": "the lemon"}]
PROVIDERS = [("openai", "/api/v1"), ("ollama_chat", ""), ("anthropic", "")]


@pytest.fixture(scope="module", autouse=True)
def _clients_closed() -> Iterator[None]:
    """It keeps its clients, and leaves their connections to the end of the process."""
    yield
    for client in (litellm.module_level_client, *litellm.in_memory_llm_clients_cache.cache_dict.values()):
        if not inspect.iscoroutinefunction(client.close):  # those for async use have connected to nobody
            client.close()


@pytest.fixture
def server(server_with_embeddings: LemonpodServer) -> LemonpodServer:
    wait_until(
        lambda: len(server_with_embeddings.get("/api/v1/models")["data"]) == 2,
        within=5,
        what="both models are known",
    )
    return server_with_embeddings


def asked(server: LemonpodServer, provider: str, path: str, model: str = "user.tiny") -> dict[str, Any]:
    return {"model": f"{provider}/{model}", "api_base": f"{server.url}{path}", "api_key": "any"}


def test_chats(server: LemonpodServer) -> None:
    for provider, path in PROVIDERS:
        answer = litellm.completion(**asked(server, provider, path), messages=HELLO, max_tokens=8)

        assert answer.choices[0].message.content, provider
        assert answer.usage.completion_tokens > 0, provider


def test_streamed_chats(server: LemonpodServer) -> None:
    for provider, path in PROVIDERS:
        chunks = list(
            litellm.completion(**asked(server, provider, path), messages=HELLO, max_tokens=8, stream=True)
        )

        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks), provider
        assert chunks[-1].choices[0].finish_reason, provider


def test_embeddings(server: LemonpodServer) -> None:
    for provider, path in (("openai", "/api/v1"), ("ollama", "")):
        answer = litellm.embedding(
            **asked(server, provider, path, "user.embed"), input=["the lemon", "a pod"]
        )

        assert [len(item["embedding"]) for item in answer.data] == [64, 64], provider


def test_an_unknown_model(server: LemonpodServer) -> None:
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(**asked(server, "anthropic", "", "nobody"), messages=HELLO)
