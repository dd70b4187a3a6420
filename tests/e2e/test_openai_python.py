"""The `openai` Python client works unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.e2e.conftest import LemonpodServer, wait_until

MODEL = "user.tiny"


@pytest.fixture
def client(server_with_embeddings: LemonpodServer) -> Iterator[openai.OpenAI]:
    url = f"{server_with_embeddings.url}/api/v1"
    with openai.OpenAI(base_url=url, api_key="not needed", timeout=30) as client:
        yield client


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "the lemon"}], max_tokens=8
    )

    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_streamed_chat(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "the lemon"}],
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
    )

    chunks = list(stream)

    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert [chunk.usage for chunk in chunks if chunk.usage]


def test_a_stream_that_is_closed_early(client: openai.OpenAI) -> None:
    with client.completions.create(model=MODEL, prompt="the", max_tokens=100_000, stream=True) as stream:
        assert next(iter(stream)).object == "text_completion"

    assert client.completions.create(model=MODEL, prompt="the", max_tokens=2).choices


def test_completions(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="the lemon", max_tokens=8)

    assert answer.choices[0].text


def test_embeddings(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model="user.embed", input=["the lemon", "a pod"])

    assert [len(item.embedding) for item in answer.data] == [64, 64]


def test_models(client: openai.OpenAI) -> None:
    wait_until(
        lambda: {model.id for model in client.models.list()} == {"user.tiny", "user.embed"},
        within=4,
        what="the models of the edited file are listed",
    )
    assert client.models.retrieve(MODEL).id == MODEL


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as answered:
        client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "hello"}])
    assert answered.value.code == "model_not_found"

    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_an_undeclared_operation_is_a_bad_request(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as answered:
        client.embeddings.create(model=MODEL, input="the lemon")
    assert answered.value.type == "unsupported_operation"
