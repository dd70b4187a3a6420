"""What llama.cpp's server needs besides of a request, built in or as a variant, and nothing more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.vocabulary import Capability
from lemonpod.gateway.json_body import BIG, peek
from lemonpod.gateway.llamacpp_chat import llamacpp_body
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import ok
from tests.unit.gateway.world import Starter, World, install_variant

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
ANSWER = {"choices": [{"message": {"content": "hi"}, "text": "hi", "finish_reason": "stop"}]}


def as_sent(document: Mapping[str, Any], capability: Capability = Capability.CHAT_COMPLETION) -> Any:
    data = json.dumps(document).encode()
    return json.loads(llamacpp_body(peek(data, ("model",)), capability).data)


def tool(**schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "pick", "parameters": {"type": "object", **schema}}}


# --- the limit of tokens ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"max_completion_tokens": 5}, {"max_completion_tokens": 5, "max_tokens": 5}),
        ({"max_completion_tokens": 5, "max_tokens": 7}, {"max_completion_tokens": 5, "max_tokens": 7}),
        ({"max_completion_tokens": None}, {"max_completion_tokens": None}),
        ({"max_completion_tokens": "5"}, {"max_completion_tokens": "5"}),
        ({"max_completion_tokens": True}, {"max_completion_tokens": True}),
        ({"metadata": {"max_completion_tokens": 5}}, {"metadata": {"max_completion_tokens": 5}}),
    ],
)
def test_the_limit_has_its_first_name_too(said: dict[str, Any], expected: dict[str, Any]) -> None:
    assert as_sent(CHAT | said) == CHAT | expected
    assert as_sent(said, Capability.COMPLETION) == expected
    assert as_sent(said, Capability.RESPONSES) == said


def test_no_other_byte_changes() -> None:
    data = b' { "max_completion_tokens" : 5,"temperature":0.10,"model":"m\\u0061" , "messages":[]}'

    body = llamacpp_body(peek(data, ("model",)), Capability.CHAT_COMPLETION)

    assert body.data == b' {"max_tokens": 5, ' + data[2:]
    assert body.with_text("model", "x").data == body.data.replace(b'"m\\u0061"', b'"x"')


@pytest.mark.parametrize("padding", [0, 4000, BIG])
def test_the_name_is_found_again(padding: int) -> None:
    document = {
        "pad": "x" * padding,
        "tools": [tool(maxLength=5000)],
        "model": "é",
        "max_completion_tokens": 5,
    }
    data = json.dumps(document, ensure_ascii=False).encode()

    body = llamacpp_body(peek(data, ("model",)), Capability.CHAT_COMPLETION).with_text("model", "other")

    assert json.loads(body.data) == document | {"tools": [tool()], "model": "other", "max_tokens": 5}


# --- tools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"maxLength": 2000, "minLength": 2000}, {}),
        ({"maxLength": 1999}, {"maxLength": 1999}),
        ({"maxItems": 2001, "minItems": 2001}, {}),
        ({"maxItems": 2000}, {"maxItems": 2000}),
        ({"maxLength": 2000.0}, {}),
        ({"maxLength": 2e30}, {}),
        ({"maxLength": "5000"}, {"maxLength": "5000"}),
        ({"maximum": 5000, "const": 5000}, {"maximum": 5000, "const": 5000}),
        ({"properties": {"a": {"maxLength": 9999, "x": 1}}}, {"properties": {"a": {"x": 1}}}),
        ({"properties": {"maxLength": {"maxLength": 9999}}}, {"properties": {"maxLength": {}}}),
        ({"items": {"anyOf": [{"maxItems": 9999}, True]}}, {"items": {"anyOf": [{}, True]}}),
        ({"$defs": {"a": {"not": {"maxLength": 9999}}}}, {"$defs": {"a": {"not": {}}}}),
        ({"default": {"maxLength": 9999}}, {"default": {"maxLength": 9999}}),
        ({"properties": [], "items": 5, "maxLength": 9999}, {"properties": [], "items": 5}),
    ],
)
def test_bounds_of_schemas(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    for shape in (tool, lambda **more: tool(**more)["function"]):
        assert as_sent(CHAT | {"tools": [shape(**schema)]}) == CHAT | {"tools": [shape(**expected)]}


@pytest.mark.parametrize("tools", [None, "maxLength", [], [5], [{"function": 5}], {"maxLength": 5000}])
def test_tools_that_are_none(tools: Any) -> None:
    document = CHAT | {"tools": tools, "other": {"maxLength": 5000}}

    assert as_sent(document) == document


@pytest.mark.parametrize("odd", [b"1e999", b"9" * 5000], ids=["infinite", "long"])
def test_what_cannot_be_written_again_passes_as_it_is(odd: bytes) -> None:
    data = b'{"model":"m","tools":[{"parameters":{"maxLength":5000,"const":%b}}]}' % odd

    assert llamacpp_body(peek(data, ("model",)), Capability.RESPONSES).data == data


def test_completions_have_no_tools() -> None:
    document = {"prompt": "x", "tools": [tool(maxLength=5000)]}

    assert as_sent(document, Capability.COMPLETION) == document
    assert as_sent(document, Capability.RESPONSES) == {"prompt": "x", "tools": [tool()]}


def test_a_body_that_needs_nothing_is_the_same_object() -> None:
    said = 'for "max_completion_tokens" say {"maxLength": 5000}'
    body = peek(json.dumps(CHAT | {"messages": said, "tools": [tool(maxLength=5)]}).encode(), ("model",))

    assert llamacpp_body(body, Capability.CHAT_COMPLETION) is body


# --- through the gateway ----------------------------------------------------------------------------------


async def llama(start: Starter, folder: Path, **more: Any) -> World:
    install_variant(folder, "llama-server")

    async def script(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.send(ok(json.dumps(ANSWER).encode()))

    return await start(
        script, variant_of="llamacpp", platforms={"linux": {"cpu": {"binary": "llama-server"}}}, **more
    )


def sent(world: World) -> Any:
    return json.loads(world.driver.received[-1].body)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("padding", [0, BIG])
async def test_a_variant_of_llamacpp(start: Starter, tmp_path: Path, loaded: bool, padding: int) -> None:
    world = await llama(start, tmp_path)
    if loaded:
        await world.post("/v1/load", {"model_name": "m"})
    said = CHAT | {"max_completion_tokens": 5, "tools": [tool(maxLength=5000)], "user": "x" * padding}

    assert (await world.post("/v1/chat/completions", said)).status == 200

    assert sent(world) == said | {"model": "user.m", "max_tokens": 5, "tools": [tool()]}


async def test_other_engines_get_what_was_said(start: Starter) -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(ok(json.dumps(ANSWER).encode()))

    world = await start(script)
    said = CHAT | {"max_completion_tokens": 5, "tools": [tool(maxLength=5000)]}

    await world.post("/v1/chat/completions", said)

    assert sent(world) == said | {"model": "user.m"}


async def test_tools_of_other_apis(start: Starter, tmp_path: Path) -> None:
    world = await llama(start, tmp_path)
    schema = {"type": "object", "properties": {"s": {"type": "string", "maxLength": 100_000}}}

    await world.post("/api/chat", CHAT | {"stream": False, "tools": [tool(**schema)]})
    ollama = sent(world)["tools"]
    await world.post(
        "/v1/messages", CHAT | {"max_tokens": 5, "tools": [{"name": "pick", "input_schema": schema}]}
    )

    assert ollama == sent(world)["tools"] == [tool(properties={"s": {"type": "string"}})]
