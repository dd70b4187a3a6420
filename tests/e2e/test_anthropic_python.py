"""The `anthropic` Python client works unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import LemonpodServer, manifest, wait_until

anthropic = pytest.importorskip("anthropic", reason="pip install '.[dev]'")

MODEL = "user.tiny"
HELLO = [{"role": "user", "content": "the lemon"}]


@pytest.fixture
def client(lemonpod_server: LemonpodServer) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=lemonpod_server.url, api_key="any", timeout=30) as client:
        yield client


def test_a_message(client: Any) -> None:
    message = client.messages.create(model=MODEL, max_tokens=4, messages=HELLO, system="be brief")

    assert message.content[0].type == "text"
    assert message.model == MODEL
    assert message.stop_reason in ("end_turn", "max_tokens")
    assert message.usage.output_tokens > 0
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) > 0


def test_a_streamed_message(client: Any) -> None:
    with client.messages.stream(model=MODEL, max_tokens=8, messages=HELLO) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_message()

    assert kinds[0] == "message_start"
    assert kinds[1] == "content_block_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert message.content[0].type == "text"
    assert message.usage.output_tokens > 0


def test_a_talk_with_tools(client: Any) -> None:
    """The tiny model calls none, but the engine takes what the client says of them."""
    schema = {"type": "object", "properties": {"ripe": {"type": "boolean"}}}
    call = {"type": "tool_use", "id": "toolu_1", "name": "pick", "input": {"ripe": True}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "done"}]}
    talk = [*HELLO, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]

    message = client.messages.create(
        model=MODEL,
        max_tokens=4,
        messages=talk,
        tools=[{"name": "pick", "description": "Pick a lemon", "input_schema": schema}],
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
    )

    assert message.content[0].type == "text"


def test_count_tokens(client: Any, lemonpod_server: LemonpodServer) -> None:
    exact = client.messages.count_tokens(model=MODEL, messages=HELLO).input_tokens
    lemonpod_server.write_manifest(
        manifest(capabilities=["chat_completion", "tokenize"], endpoints={"tokenize": "/tokenize"})
    )
    wait_until(
        lambda: (
            "tokenize" in lemonpod_server.get("/api/v1/system-info")["recipes"]["tiny-llama"]["capabilities"]
        ),
        within=5,
        what="the edited manifest is known",
    )
    lemonpod_server.post("/api/v1/unload", {})

    estimate = client.messages.count_tokens(model=MODEL, messages=HELLO).input_tokens

    assert 0 < estimate < exact


def test_what_goes_wrong(client: Any) -> None:
    with pytest.raises(anthropic.NotFoundError, match="'nobody' was not found") as unknown:
        client.messages.create(model="nobody", max_tokens=4, messages=HELLO)
    assert unknown.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError, match="'messages' is required"):
        client.messages.create(model=MODEL, max_tokens=4, messages=[])
    long = [{"role": "user", "content": "the lemon " * 5000}]
    with pytest.raises(anthropic.BadRequestError, match="context size") as too_long:
        client.messages.create(model=MODEL, max_tokens=4, messages=long)
    assert too_long.value.body["error"]["type"] == "invalid_request_error"
