"""A model calls a tool and hears of the result, through each client.

The tiny model would call none by itself, but llama.cpp holds it to a grammar where a call is required. Its
template writes calls in tags without a marker before them: with one, a model may say anything first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.e2e.conftest import CHECKPOINT, ENGINE_ARGS, REPOSITORY, LemonpodServer, manifest, wait_until

anthropic = pytest.importorskip("anthropic", reason="pip install '.[dev]'")
ollama = pytest.importorskip("ollama", reason="pip install '.[dev]'")

MODEL = "user.picker"
TEMPLATE = """\
{%- for tool in tools or [] %}{{- tool | tojson + '\\n' }}{%- endfor %}
{%- for message in messages %}
{{- '<|' + message.role + '|>' }}
{%- if message.content %}{{- message.content }}{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- '<function=' + call.function.name + '>' + (call.function.arguments | tojson) + '</function>' }}
{%- endfor %}
{{- '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}
"""
LIMITS = {"required": 300, "any": 300, "none": 4}
"""Tokens by the choice of a tool: the grammar of a call leaves room for a few spaces, but not for more."""
ASKED = {"role": "user", "content": "pick a lemon"}
SCHEMA = {"type": "object", "properties": {"ripe": {"type": "boolean"}}, "required": ["ripe"]}
TOOL = {"name": "pick", "description": "Pick a lemon", "input_schema": SCHEMA}
FUNCTION = {"type": "function", "function": {"name": "pick", "parameters": SCHEMA}}


@pytest.fixture
def server(lemonpod_server: LemonpodServer) -> LemonpodServer:
    """With `user.picker`, the tiny model that can call tools."""
    template = lemonpod_server.root / "tools.jinja"
    template.write_text(TEMPLATE, encoding="utf-8")
    document = manifest(recipe="picker")
    block = document["platforms"]["linux"]["cpu"]
    block["args"] = [*ENGINE_ARGS, "--jinja", "--chat-template-file", str(template)]
    block["working_dir"] = str(REPOSITORY)
    lemonpod_server.write_manifest(document, "picker.json")
    lemonpod_server.write_models(picker={"checkpoint": CHECKPOINT, "recipe": "picker"})
    wait_until(
        lambda: [model["id"] for model in lemonpod_server.get("/api/v1/models")["data"]] == [MODEL],
        within=5,
        what="the model is known",
    )
    return lemonpod_server


def is_right(arguments: Any) -> bool:
    return isinstance(arguments, dict) and isinstance(arguments["ripe"], bool)


# --- openai -----------------------------------------------------------------------------------------------


@pytest.fixture
def openai_client(server: LemonpodServer) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", timeout=30) as client:
        yield client


@pytest.mark.parametrize("streamed", [False, True])
def test_openai(openai_client: Any, streamed: bool) -> None:
    said = {"model": MODEL, "tools": [FUNCTION], "temperature": 0}

    def ask(messages: list[Any], choice: str) -> Any:
        asked = said | {"messages": messages, "tool_choice": choice, "max_tokens": LIMITS[choice]}
        if not streamed:
            return openai_client.chat.completions.create(**asked)
        with openai_client.chat.completions.stream(**asked) as stream:
            assert len(list(stream)) > 1
            return stream.current_completion_snapshot

    answer = ask([ASKED], "required")
    [call] = answer.choices[0].message.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": "picked"}
    end = ask([ASKED, answer.choices[0].message.to_dict(), result], "none")

    assert answer.choices[0].finish_reason == "tool_calls"
    assert call.function.name == "pick"
    assert is_right(json.loads(call.function.arguments))
    assert end.choices[0].message.content
    assert not end.choices[0].message.tool_calls


# --- anthropic --------------------------------------------------------------------------------------------


@pytest.fixture
def anthropic_client(server: LemonpodServer) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=server.url, api_key="any", timeout=30) as client:
        yield client


@pytest.mark.parametrize("streamed", [False, True])
def test_anthropic(anthropic_client: Any, streamed: bool) -> None:
    said = {"model": MODEL, "tools": [TOOL], "extra_body": {"temperature": 0}}

    def ask(messages: list[Any], choice: str) -> Any:
        asked = said | {
            "messages": messages,
            "tool_choice": {"type": choice},
            "max_tokens": LIMITS[choice],
        }
        if not streamed:
            return anthropic_client.messages.create(**asked)
        with anthropic_client.messages.stream(**asked) as stream:
            return stream.get_final_message()

    message = ask([ASKED], "any")
    [call] = message.content
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "picked"}
    talk = [ASKED, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    end = ask(talk, "none")

    assert message.stop_reason == "tool_use"
    assert (call.type, call.name) == ("tool_use", "pick")
    assert is_right(call.input)
    assert [block.type for block in end.content] == ["text"]
    assert end.usage.input_tokens + end.usage.cache_read_input_tokens > message.usage.input_tokens


# --- ollama -----------------------------------------------------------------------------------------------


@pytest.fixture
def ollama_client(server: LemonpodServer) -> Iterator[Any]:
    with ollama.Client(server.url, timeout=30) as client:
        yield client


@pytest.mark.parametrize("streamed", [False, True])
def test_ollama(ollama_client: Any, streamed: bool) -> None:
    """Its API cannot require a call, but its options reach the engine."""

    def ask(messages: list[Any], choice: str) -> list[Any]:
        options = {"num_predict": LIMITS[choice], "temperature": 0, "tool_choice": choice}
        answer = ollama_client.chat(MODEL, messages, tools=[FUNCTION], options=options, stream=streamed)
        return list(answer) if streamed else [answer]

    told = ask([ASKED], "required")
    [call] = [call for part in told for call in part.message.tool_calls or ()]
    own = {"role": "assistant", "content": "", "tool_calls": [call]}
    end = ask([ASKED, own, {"role": "tool", "tool_name": "pick", "content": "picked"}], "none")

    assert told[-1].done
    assert call.function.name == "pick"
    assert is_right(call.function.arguments)
    assert "".join(part.message.content or "" for part in end)
    assert not any(part.message.tool_calls for part in end)
