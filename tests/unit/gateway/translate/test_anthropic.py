"""Anthropic's words into OpenAI's, and back."""

from __future__ import annotations

from typing import Any

import pytest

from lemonpod.contract.vocabulary import Capability
from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.translate.anthropic_answer import AnthropicStream, mistake, whole
from lemonpod.gateway.translate.anthropic_request import count_tokens, messages
from lemonpod.gateway.translate.question import Took
from tests.unit.gateway.translate.streams import call_part, delta, events

TOOK = Took(total=3.0, loaded=1.0)
HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"name": "pick", "description": "Pick one", "input_schema": {"type": "object"}}
OTHER = {"name": "eat", "input_schema": {"type": "object"}}


def body(**document: Any) -> Any:
    [call] = messages({"model": "m", "max_tokens": 5, "messages": HELLO} | document).calls
    return call.body


# --- requests ---------------------------------------------------------------------------------------------


def test_a_plain_request() -> None:
    document = body(
        system=[{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        temperature=0.5,
        top_k=3,
        stop_sequences=["x"],
        metadata={"user_id": "u"},
        thinking={"type": "enabled", "budget_tokens": 1024},
    )

    assert document == {
        "messages": [{"role": "system", "content": "be brief"}, *HELLO],
        "max_tokens": 5,
        "temperature": 0.5,
        "top_k": 3,
        "stop": ["x"],
        "user": "u",
        "chat_template_kwargs": {"enable_thinking": True},
    }


def test_blocks() -> None:
    talk = [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "I pick"},
                {"type": "tool_use", "id": "t1", "name": "pick", "input": {"ripe": True}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "is_error": True,
                    "content": [
                        {"type": "text", "text": "no lemon"},
                        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
                    ],
                },
                {"type": "text", "text": "again"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
                },
            ],
        },
    ]

    assert body(messages=talk)["messages"] == [
        {
            "role": "assistant",
            "content": "I pick",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "pick", "arguments": '{"ripe": true}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "Error: no lemon"},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                {"type": "text", "text": "again"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
    ]


@pytest.mark.parametrize(("title", "text"), [({}, ""), ({"title": "t"}, "t\n\n")])
def test_an_empty_document(title: dict[str, str], text: str) -> None:
    block = {"type": "document", "source": {"type": "text"}} | title

    assert body(messages=[{"role": "user", "content": [block]}])["messages"][0]["content"] == text


def test_a_message_of_results_alone() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}

    assert body(messages=[{"role": "user", "content": [result]}])["messages"] == [
        {"role": "tool", "tool_call_id": "t1", "content": "done"}
    ]


@pytest.mark.parametrize(
    ("choice", "said", "names"),
    [
        ({"type": "auto"}, "auto", ["pick", "eat"]),
        ({"type": "any"}, "required", ["pick", "eat"]),
        ({"type": "none"}, "none", ["pick", "eat"]),
        ({"type": "tool", "name": "eat"}, "required", ["eat"]),
    ],
)
def test_tool_choices(choice: dict[str, Any], said: str, names: list[str]) -> None:
    document = body(tools=[TOOL, OTHER], tool_choice=choice)

    assert document["tool_choice"] == said
    assert [tool["function"]["name"] for tool in document["tools"]] == names


def test_one_call_at_a_time() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}

    assert body(tools=[TOOL], tool_choice=choice)["parallel_tool_calls"] is False


def test_count_tokens_asks_the_tokenizer_first() -> None:
    tokenize, chat = count_tokens({"model": "m", "messages": HELLO, "tools": [TOOL], "system": "s"}).calls

    assert tokenize.capability is Capability.TOKENIZE
    assert all(word in tokenize.body["content"] for word in ("hello", "pick", "s"))
    assert tokenize.tell({"tokens": [1, 2]}, TOOK) == {"input_tokens": 2}  # type: ignore[operator]
    assert chat.body["max_tokens"] == 1
    assert chat.tell({"usage": {"prompt_tokens": 9}}, TOOK) == {"input_tokens": 9}  # type: ignore[operator]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"max_tokens": None}, "'max_tokens' is required"),
        ({"max_tokens": 0}, "'max_tokens' is required, and must be above zero"),
        ({"messages": []}, "'messages' is required"),
        (
            {"messages": [{"role": "robot", "content": "x"}]},
            r"'messages\[0\].role' must be user or assistant",
        ),
        ({"messages": [{"role": "user", "content": [{}]}]}, r"'messages\[0\].content\[0\].type' is required"),
        (
            {"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "base64"}}]}]},
            r"'messages\[0\].content\[0\]' is of a type that is not supported: document .* base64",
        ),
        ({"tools": [{"type": "web_search_20250305", "name": "w"}]}, r"'tools\[0\]' has no input_schema"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}}, "there is no tool 'x'"),
        ({"tools": [TOOL], "tool_choice": {"type": "must"}}, "'tool_choice.type' must be one of"),
        ({"thinking": {"type": "much"}}, "'thinking.type' must be"),
    ],
)
def test_mistakes_are_told_with_their_place(change: dict[str, Any], told: str) -> None:
    with pytest.raises(MalformedRequestError, match=told):
        body(**change)


# --- answers ----------------------------------------------------------------------------------------------


def answer(message: dict[str, Any], finish: str | None, **more: Any) -> Any:
    choice = {"message": message, "finish_reason": finish, **more}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    return whole("m", ["END"])({"id": "chatcmpl-7", "choices": [choice], "usage": usage}, TOOK)


def test_a_whole_answer() -> None:
    call = {"id": "t1", "function": {"name": "pick", "arguments": '{"ripe": true}'}}

    told = answer({"content": "ok", "reasoning_content": "hm", "tool_calls": [call]}, "tool_calls")

    assert told == {
        "id": "msg_7",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "ok"},
            {"type": "tool_use", "id": "t1", "name": "pick", "input": {"ripe": True}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 5,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 4,
            "output_tokens": 3,
        },
    }


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), (None, "end_turn")],
)
def test_stop_reasons(finish: str | None, reason: str) -> None:
    assert answer({"content": "x"}, finish)["stop_reason"] == reason


def test_a_stop_sequence_where_the_engine_tells() -> None:
    told = answer({"content": "x"}, "stop", stop_reason="END")

    assert (told["stop_reason"], told["stop_sequence"]) == ("stop_sequence", "END")


def test_the_order_of_events() -> None:
    stream = AnthropicStream("m", [])
    told = events(
        b"".join(
            (
                stream.event(delta(role="assistant")),
                stream.event(delta(reasoning_content="hm")),
                stream.event(delta(content="o")),
                stream.event(delta(content="k")),
                stream.event(delta(tool_calls=[call_part(0, "", id="t1", function={"name": "pick"})])),
                stream.event(delta(tool_calls=[call_part(0, "{}")])),
                stream.event(delta(tool_calls=[call_part(1, "{}", id="t2", function={"name": "eat"})])),
                stream.event(delta("tool_calls")),
                stream.event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}),
                stream.end(TOOK),
            )
        )
    )

    assert [name for name, _ in told] == [
        "message_start",
        *("content_block_start", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
        "message_delta",
        "message_stop",
    ]
    assert all(event["type"] == name for name, event in told)
    starts = [event for name, event in told if name == "content_block_start"]
    assert [start["index"] for start in starts] == [0, 1, 2, 3]
    assert [start["content_block"]["type"] for start in starts] == [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert told[-2][1]["delta"]["stop_reason"] == "tool_use"
    assert told[-2][1]["usage"]["input_tokens"] == 9


def test_an_empty_stream_is_an_empty_message() -> None:
    told = events(AnthropicStream("m", []).end(TOOK))

    assert [name for name, _ in told] == ["message_start", "message_delta", "message_stop"]


def test_a_ping_only_behind_the_start() -> None:
    stream = AnthropicStream("m", [])
    before = stream.ping
    stream.event(delta(content="x"))

    assert before == b""
    assert events(stream.ping) == [("ping", {"type": "ping"})]


def test_calls_that_engines_tell_whole_and_do_not_number() -> None:
    stream = AnthropicStream("m", [])
    told = b""
    for name in "fg":
        told += stream.event(delta(tool_calls=[call_part(0, "{}", id=name, function={"name": name})]))

    starts = [event["content_block"] for kind, event in events(told) if kind == "content_block_start"]
    assert [(block["id"], block["name"]) for block in starts] == [("f", "f"), ("g", "g")]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
    ],
)
def test_error_types(status: int, kind: str) -> None:
    assert mistake(status, "why") == {"type": "error", "error": {"type": kind, "message": "why"}}
