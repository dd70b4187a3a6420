"""Ollama's words into OpenAI's, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lemonpod.contract.vocabulary import Capability
from lemonpod.errors import MalformedRequestError, UpstreamError
from lemonpod.gateway.translate import ollama_request
from lemonpod.gateway.translate.ollama_answer import OllamaStream, embeddings, in_chat, in_generate, whole
from lemonpod.gateway.translate.question import Ask, Load, Took, Unload

TOOK = Took(total=3.0, loaded=1.0, first=1.5)
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": False}


def asked(question: object) -> Ask:
    assert isinstance(question, Ask)
    return question


def body(document: dict[str, Any]) -> Any:
    [call] = asked(ollama_request.chat(document)).calls
    return call.body


def lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


# --- requests ---------------------------------------------------------------------------------------------


def test_options_have_openais_names_or_are_the_engines_own() -> None:
    options = {"num_predict": 5, "top_k": 3, "seed": 7, "stop": ["x"], "num_ctx": 4096, "dry_multiplier": 0.5}

    assert body(CHAT | {"options": options}) == {
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 5,
        "top_k": 3,
        "seed": 7,
        "stop": ["x"],
        "dry_multiplier": 0.5,
    }


@pytest.mark.parametrize("name", ["messages", "model", "stream"])
def test_an_option_cannot_take_the_place_of_the_request(name: str) -> None:
    with pytest.raises(MalformedRequestError, match=f"'options.{name}' is no option"):
        ollama_request.chat(CHAT | {"options": {name: "x"}})


@pytest.mark.parametrize("limit", [-1, -2])
def test_no_limit(limit: int) -> None:
    assert "max_tokens" not in body(CHAT | {"options": {"num_predict": limit}})


def test_a_stream_tells_what_it_used() -> None:
    document = body({"model": "m", "messages": CHAT["messages"]})

    assert document["stream"] is True
    assert document["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("think", "words"),
    [
        (True, {"chat_template_kwargs": {"enable_thinking": True}}),
        (False, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("high", {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "high"}),
    ],
)
def test_think(think: object, words: dict[str, Any]) -> None:
    assert words.items() <= body(CHAT | {"think": think}).items()


def test_formats() -> None:
    schema = {"type": "object"}

    assert body(CHAT | {"format": "json"})["response_format"] == {"type": "json_object"}
    assert body(CHAT | {"format": schema})["response_format"]["json_schema"]["schema"] == schema
    assert "response_format" not in body(CHAT | {"format": ""})


def test_images_are_parts_with_their_type() -> None:
    message = {"role": "user", "content": "what is this", "images": ["/9j/AAAA", "iVBORw0KGgoAAA"]}

    [said] = body(CHAT | {"messages": [message]})["messages"]

    assert said["content"] == [
        {"type": "text", "text": "what is this"},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/AAAA"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgoAAA"}},
    ]


def test_results_find_their_calls() -> None:
    calls = [{"function": {"name": name, "arguments": {"n": 1}}} for name in ("a", "b", "c")]
    talk = [
        {"role": "assistant", "tool_calls": calls, "thinking": "hm"},
        {"role": "tool", "content": "of b", "tool_name": "b"},
        {"role": "tool", "content": "of a"},
        {"role": "tool", "content": "of c", "tool_call_id": "mine"},
    ]

    assistant, *results = body(CHAT | {"messages": talk})["messages"]

    ids = {call["function"]["name"]: call["id"] for call in assistant["tool_calls"]}
    assert assistant["tool_calls"][0]["function"]["arguments"] == '{"n": 1}'
    assert assistant["reasoning_content"] == "hm"
    assert [result["tool_call_id"] for result in results] == [ids["b"], ids["a"], "mine"]
    assert len(set(ids.values())) == 3


def test_a_prompt_is_a_chat_where_the_engine_has_them() -> None:
    question = asked(ollama_request.generate({"model": "m", "prompt": "p", "system": "s", "stream": False}))

    chat, text = question.calls
    assert chat.capability is Capability.CHAT_COMPLETION
    assert chat.body["messages"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "p"},
    ]
    assert text.capability is Capability.COMPLETION
    assert text.body["prompt"] == "s\n\np"


@pytest.mark.parametrize("more", [{"raw": True}, {"suffix": "}"}])
def test_a_bare_prompt(more: dict[str, Any]) -> None:
    [call] = asked(ollama_request.generate({"model": "m", "prompt": "p"} | more)).calls

    assert call.capability is Capability.COMPLETION
    assert call.body["prompt"] == "p"


@pytest.mark.parametrize("document", [{"messages": []}, {}])
def test_nothing_to_say_loads_or_unloads(document: dict[str, Any]) -> None:
    loaded = ollama_request.chat({"model": "m"} | document)
    unloaded = ollama_request.chat({"model": "m", "keep_alive": 0} | document)

    assert isinstance(loaded, Load)
    assert loaded.told["done_reason"] == "load"
    assert isinstance(unloaded, Unload)
    assert unloaded.told["message"] == {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("keep_alive", "unload"),
    [(0, True), ("0", True), ("0s", True), ("5m", False), ("1h30m", False), (-1, False), (300, False)],
)
def test_keep_alive(keep_alive: object, unload: bool) -> None:
    assert asked(ollama_request.chat(CHAT | {"keep_alive": keep_alive})).unload is unload


def test_embeddings() -> None:
    [one] = asked(ollama_request.embed({"model": "m", "input": "a", "dimensions": 8})).calls
    [old] = asked(ollama_request.embeddings({"model": "m", "prompt": "a"})).calls

    assert one.body == {"input": ["a"], "encoding_format": "float", "dimensions": 8}
    assert old.body == {"input": ["a"], "encoding_format": "float"}
    assert isinstance(ollama_request.embed({"model": "m", "input": []}), Load)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": ""}, "'model' is required"),
        ({"model": 5}, "'model' must be a string"),
        ({"messages": {}}, "'messages' must be a list"),
        ({"messages": ["x"]}, r"'messages\[0\]' must be an object"),
        ({"messages": [{"content": "x"}]}, r"'messages\[0\].role' is required"),
        ({"messages": [{"role": "tool"}]}, r"'messages\[0\]' is the result of a tool that nobody called"),
        ({"messages": [{"role": "user", "images": [1]}]}, r"'messages\[0\].images\[0\]' must be a string"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, r"tool_calls\[0\].function' is required"),
        ({"tools": True}, "'tools' must be a list"),
        ({"tools": ["f"]}, r"'tools\[0\]' must be an object"),
        ({"options": 1}, "'options' must be an object"),
        ({"format": "yaml"}, "'format' must be"),
        ({"think": "hard"}, "'think' must be"),
        ({"keep_alive": "soon"}, "'keep_alive' must be"),
        ({"keep_alive": ""}, "'keep_alive' must be"),
        ({"keep_alive": "1" * 60 + "x"}, "'keep_alive' must be"),  # told at once, not after years
        ({"stream": "yes"}, "'stream' must be true or false"),
    ],
)
def test_mistakes_are_told_with_their_place(change: dict[str, Any], told: str) -> None:
    with pytest.raises(MalformedRequestError, match=told):
        ollama_request.chat(CHAT | change)


@pytest.mark.parametrize("name", ["template", "context"])
def test_what_only_ollamas_own_engine_does_is_refused(name: str) -> None:
    with pytest.raises(MalformedRequestError, match=f"'{name}' is not supported"):
        ollama_request.generate({"model": "m", "prompt": "p", name: "x"})


# --- answers ----------------------------------------------------------------------------------------------


def answer(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    return {
        "choices": [{"message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 10},
        "timings": {"prompt_ms": 500, "predicted_per_second": 10.0},
    }


def event(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": delta, "finish_reason": finish}]}


def test_a_whole_answer() -> None:
    told = whole("m", in_chat)(answer({"content": "hi", "reasoning_content": "hm"}, "length"), TOOK)

    assert told["message"] == {"role": "assistant", "content": "hi", "thinking": "hm"}
    assert told["done_reason"] == "length"
    figures = {name: told[name] for name in told if name.endswith(("count", "duration"))}
    assert figures == {
        "total_duration": 3_000_000_000,
        "load_duration": 1_000_000_000,
        "prompt_eval_count": 4,
        "prompt_eval_duration": 500_000_000,
        "eval_count": 10,
        "eval_duration": 1_000_000_000,
    }


def test_a_text_completion() -> None:
    told = whole("m", in_generate)({"choices": [{"text": "hi", "finish_reason": "stop"}]}, TOOK)

    assert told["response"] == "hi"
    assert told["done_reason"] == "stop"


def test_a_stream_with_a_call_in_fragments() -> None:
    stream = OllamaStream("m", in_chat)
    part = {"index": 0, "id": "c", "function": {"name": "pick", "arguments": '{"ripe"'}}
    data = b"".join(
        (
            stream.event(event({"role": "assistant", "content": None})),
            stream.event(event({"reasoning_content": "hm"})),
            stream.event(event({"content": "ok"})),
            stream.event(event({"tool_calls": [part]})),
            stream.event(event({"tool_calls": [{"index": 0, "function": {"arguments": ": true}"}}]})),
            stream.event(event({}, "tool_calls")),
            stream.event({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 10}}),
            stream.end(TOOK),
        )
    )

    thought, word, call, last = lines(data)
    assert thought["message"] == {"role": "assistant", "content": "", "thinking": "hm"}
    assert word["message"]["content"] == "ok"
    assert call["message"]["tool_calls"] == [
        {"id": "c", "function": {"name": "pick", "arguments": {"ripe": True}}}
    ]
    assert last["done"]
    assert last["eval_count"] == 10
    assert last["prompt_eval_duration"] == 500_000_000  # as it was seen
    assert last["eval_duration"] == 1_500_000_000


@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_calls_that_engines_tell_whole_and_do_not_number(index: dict[str, int]) -> None:
    stream = OllamaStream("m", in_chat)
    for name in "fg":
        call = {"id": f"call-{name}", "function": {"name": name, "arguments": "{}"}}
        stream.event(event({"tool_calls": [index | call]}))

    calls, _ = lines(stream.end(TOOK))

    assert [call["function"]["name"] for call in calls["message"]["tool_calls"]] == ["f", "g"]


def test_a_call_that_was_cut_off_is_none() -> None:
    call = {"function": {"name": "pick", "arguments": '{"ripe"'}}

    assert "tool_calls" not in whole("m", in_chat)(answer({"tool_calls": [call]}, "length"), TOOK)["message"]
    with pytest.raises(UpstreamError, match="'pick' with arguments that are no JSON object"):
        whole("m", in_chat)(answer({"tool_calls": [call]}), TOOK)


def test_vectors_are_in_order() -> None:
    data = [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1.0]}]

    assert embeddings("m")({"data": data}, TOOK)["embeddings"] == [[1.0], [2.0]]
    with pytest.raises(UpstreamError, match="no embeddings"):
        embeddings("m")({"data": [{}]}, TOOK)
