"""Whatever a client of another API asks and an engine answers: told in the right shape, or as a mistake."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod.errors import MalformedRequestError, UpstreamError
from lemonpod.gateway.data.interpreted import openai_body
from lemonpod.gateway.data.retold import EventReader
from lemonpod.gateway.json_body import parsed
from lemonpod.gateway.translate import anthropic_answer, ollama_answer
from lemonpod.gateway.translate.answer import written
from lemonpod.gateway.translate.endpoints import ENDPOINTS
from lemonpod.gateway.translate.question import Ask, Stream, Took, Whole
from tests.fuzz.near import near

NAMES = (
    "arguments", "choices", "completion_tokens", "content", "data", "delta", "dimensions", "embedding",
    "error", "finish_reason", "format", "function", "id", "images", "index", "input", "input_schema",
    "is_error", "keep_alive", "logprobs", "max_tokens", "message", "messages", "metadata", "model", "name",
    "options", "predicted_per_second", "prompt", "prompt_ms", "prompt_tokens", "raw", "reasoning_content",
    "role", "source", "stop_reason", "stop_sequences", "stream", "suffix", "system", "text", "think",
    "thinking", "timings", "title", "tokens", "tool_call_id", "tool_calls", "tool_choice", "tool_use_id",
    "tools", "type", "url", "usage",
)  # fmt: skip
WORDS = st.sampled_from(
    ["", "m", "user", "assistant", "tool", "text", "image", "document", "tool_use", "tool_result",
     "thinking", "base64", "url", "auto", "any", "stop", "length", "tool_calls", "json", "5m", "0", "{}", "[",
     '{"a": NaN}', '{"a": 1e999}', '{"a":', "é\U0001f34b", "\ud800"]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | WORDS
    | st.sampled_from([0, 1, -1, 10**30, 0.5, 1e-320, 1e308, float("inf"), float("nan")])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=25,
)


ANTHROPIC = {
    "model": "m",
    "max_tokens": 5,
    "stream": True,
    "system": [{"type": "text", "text": "s"}],
    "messages": [
        {"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}},
            {"type": "document", "source": {"type": "text", "data": "d"}},
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "r"}]},
        ]},
        {"role": "user", "content": [
            {"type": "text", "text": "a"}, {"type": "document", "source": {"type": "text", "data": "d"}}
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
        ]},
    ],
    "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "tool", "name": "f"},
    "thinking": {"type": "enabled"},
    "stop_sequences": ["x"],
    "metadata": {"user_id": "u"},
}  # fmt: skip
OLLAMA = {
    "model": "m",
    "stream": False,
    "options": {"num_predict": 5, "model": "other", "stream": True},
    "format": {"type": "object"},
    "think": "low",
    "keep_alive": "0s",
    "messages": [
        {"role": "user", "content": "hello", "images": ["iVBORw0KGgo"]},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
        {"role": "tool", "tool_name": "f", "content": "r"},
    ],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "prompt": "p",
    "system": "s",
    "input": ["a"],
    "dimensions": 8,
}
CALLS = [
    {"index": 0, "id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}},
    {"index": 1, "id": "2", "function": {"name": "g", "arguments": "{}"}},
]
SAID = {"content": "hi", "reasoning_content": "hm", "tool_calls": CALLS}
ANSWER = {
    "id": "chatcmpl-1",
    "choices": [{"message": SAID, "finish_reason": "stop", "stop_reason": "x"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}},
    "timings": {"prompt_ms": 1.0, "predicted_per_second": 2.0},
    "data": [{"index": 0, "embedding": [0.5]}],
    "tokens": [1, 2],
}
EVENT = {
    "choices": [{"delta": SAID, "finish_reason": "stop", "logprobs": {"content": [{"token": "a"}]}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    "timings": {"prompt_ms": 1.0, "predicted_per_second": 2.0},
}
TOOK = Took(2.0, 0.5, 1.0)


def strict(text: bytes | str) -> Any:
    """As a client reads it that takes JSON by its word."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def events(data: bytes) -> list[dict[str, Any]]:
    read = []
    for event in data.decode().split("\n\n")[:-1]:
        first, second = event.split("\n")
        read.append(strict(second.removeprefix("data: ")))
        assert first == f"event: {read[-1]['type']}"
    return read


REQUESTS = st.sampled_from(sorted(ENDPOINTS)).flatmap(
    lambda path: st.tuples(st.just(path), near(ANTHROPIC if "messages" in path else OLLAMA, JSON))
)


@given(REQUESTS)
@settings(max_examples=1000)
def test_a_request_is_understood_or_refused(request: tuple[str, dict[str, Any]]) -> None:
    path, document = request
    with suppress(MalformedRequestError):
        question = ENDPOINTS[path].read(parsed(json.dumps(document).encode()))
        assert question.model
        if not isinstance(question, Ask):
            strict(json.dumps(question.told, allow_nan=False))
            return
        for call in question.calls:
            body = openai_body(question.model, call.body)
            sent = dict(pairs := json.loads(body.data, object_pairs_hook=list))
            strict(body.data)
            assert len(sent) == len(pairs), "a member comes twice"
            assert sent["model"] == question.model
            assert sent.get("stream", False) is not callable(call.tell)


@pytest.mark.parametrize("path", sorted(ENDPOINTS))
def test_what_is_nested_too_deeply_is_refused(path: str) -> None:
    """At every depth, since what is read may yet be too deep to be written within something else."""
    refused = 0
    for depth in range(800, 1100):
        text = '{"a":' * depth + "1" + "}" * depth
        deep = (
            '{"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "prompt": "x", '
        )
        deep += f'"input": "x", "format": {text}, "tools": [{{"name": "f", "input_schema": {text}}}]}}'
        try:
            question = ENDPOINTS[path].read(parsed(deep.encode()))
            assert isinstance(question, Ask)
            for call in question.calls:
                openai_body(question.model, call.body)
        except MalformedRequestError:
            refused += 1
    assert 0 < refused < 300


@given(
    st.sampled_from(
        [
            anthropic_answer.whole("m", ["x"]),
            anthropic_answer.count_of_tokens,
            anthropic_answer.count_of_prompt,
            ollama_answer.whole("m", ollama_answer.in_chat),
            ollama_answer.whole("m", ollama_answer.in_generate),
            ollama_answer.embeddings("m"),
            ollama_answer.embedding,
        ]
    ),
    near(ANSWER, JSON),
)
@settings(max_examples=600)
def test_an_answer_is_told_or_refused(tell: Whole, answer: Mapping[str, Any]) -> None:
    with suppress(UpstreamError):
        told = strict(written(tell(answer, TOOK)))
        if told.get("type") == "message":
            assert told["stop_reason"] in {"end_turn", "max_tokens", "tool_use", "refusal", "stop_sequence"}
            assert all(isinstance(b["input"], dict) for b in told["content"] if b["type"] == "tool_use")
            assert all(type(number) is int and number >= 0 for number in told["usage"].values())
        if "done" in told:
            assert told["done_reason"] in {"stop", "length"}
            numbers = [told[name] for name in told if name.endswith(("_count", "_duration"))]
            assert all(type(number) is int and 0 <= number < 1 << 63 for number in numbers)
        vectors = told.get("embeddings", [told["embedding"]] if "embedding" in told else [])
        assert all(isinstance(vector, list) for vector in vectors)


DOCUMENTS = st.lists(near(EVENT, JSON), max_size=5)


@given(DOCUMENTS)
@settings(max_examples=500)
def test_blocks_follow_one_another(documents: list[Mapping[str, Any]]) -> None:
    stream = anthropic_answer.AnthropicStream("m", ["x"])
    data, is_whole = told_by(stream, documents)

    told = events(data)
    kinds = [event["type"] for event in told]
    block, begun = None, 0
    for event in told:
        match event["type"]:
            case "content_block_start":
                assert (block, event["index"]) == (None, begun)
                block = event["content_block"]["type"]
                begun += 1
            case "content_block_delta":
                assert event["index"] == begun - 1
                assert event["delta"]["type"] == {
                    "text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"
                }[block or ""]  # fmt: skip
            case "content_block_stop":
                assert block is not None
                assert event["index"] == begun - 1
                block = None
    assert kinds.count("message_start") == kinds[:1].count("message_start") <= 1
    if is_whole:
        assert block is None
        assert kinds[:1] == ["message_start"]
        assert kinds[-2:] == ["message_delta", "message_stop"]


@given(DOCUMENTS, st.sampled_from([ollama_answer.in_chat, ollama_answer.in_generate]))
@settings(max_examples=500)
def test_every_line_is_an_object(documents: list[Mapping[str, Any]], form: ollama_answer.Form) -> None:
    data, is_whole = told_by(ollama_answer.OllamaStream("m", form), documents)

    lines = [strict(line) for line in data.splitlines()]
    assert all(line["model"] == "m" and isinstance(line["done"], bool) for line in lines)
    assert [line["done"] for line in lines].count(True) == is_whole
    assert not is_whole or lines[-1]["done"]


def told_by(stream: Stream, documents: list[Mapping[str, Any]]) -> tuple[bytes, bool]:
    """What the client sees, and whether it came to its end."""
    data = b""
    try:
        for document in documents:
            data += stream.event(document)
        return data + stream.end(TOOK), True
    except UpstreamError:
        return data, False


BITS = st.sampled_from(
    [b"data", b":", b" ", b"{}", b"event: error", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b"\xf0", b"error: x",
     b"[DONE]", "é".encode()]
)  # fmt: skip


@given(st.lists(BITS, max_size=30).map(b"".join), st.lists(st.integers(1, 5), max_size=60))
@settings(max_examples=500)
def test_where_a_stream_is_split_makes_no_difference(data: bytes, sizes: list[int]) -> None:  # H27
    reader, read, at = EventReader(), [], 0
    for size in sizes:
        read += reader.feed(data[at : at + size])
        at += size
    read += reader.feed(data[at:])

    assert read == EventReader().feed(data)
