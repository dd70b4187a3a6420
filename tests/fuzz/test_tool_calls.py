"""However an engine mixes the fragments of its tool calls: each client builds the same calls of them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod.gateway.translate.ollama_answer import OllamaStream, in_chat
from lemonpod.gateway.translate.question import Took
from tests.unit.gateway.translate.streams import call_part, delta
from tests.unit.gateway.translate.test_anthropic_blocks import message_of

TEXT = st.text(st.sampled_from('a{}[]"\\\n:,é\U0001f34b'), max_size=6)
VALUES = st.recursive(
    TEXT | st.booleans() | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mixed(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
    """Arguments of some calls, and their fragments: each call's in their order, all of them in any."""
    calls = draw(st.lists(st.dictionaries(TEXT, VALUES, max_size=3), min_size=1, max_size=4))
    waiting = []
    for call in calls:
        text = json.dumps(call, ensure_ascii=draw(st.booleans()))
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
        waiting.append([text[at:to] for at, to in zip([0, *cuts], [*cuts, len(text)], strict=True)])
    # Engines begin calls in the order of their numbers.
    parts = [(number, fragments.pop(0)) for number, fragments in enumerate(waiting)]
    while left := [number for number, fragments in enumerate(waiting) if fragments]:
        number = draw(st.sampled_from(left))
        parts.append((number, waiting[number].pop(0)))
    return calls, parts


@given(mixed())
@settings(max_examples=200, deadline=None)
def test_the_calls_are_those_of_the_engine(case: tuple[list[dict[str, Any]], list[tuple[int, str]]]) -> None:
    calls, parts = case

    blocks = message_of(list(parts))

    assert [json.loads(block["said"]) for block in blocks] == calls
    assert [block["id"] for block in blocks] == [f"t{number}" for number in range(len(calls))]


@given(mixed())
@settings(max_examples=100, deadline=None)
def test_ollamas_clients_too(case: tuple[list[dict[str, Any]], list[tuple[int, str]]]) -> None:
    calls, parts = case
    stream, begun = OllamaStream("m", in_chat), set()
    for number, arguments in parts:
        more = {} if number in begun else {"id": f"t{number}", "function": {"name": "pick"}}
        begun.add(number)
        assert stream.event(delta(tool_calls=[call_part(number, arguments, **more)])) == b""

    told = json.loads(stream.end(Took(total=1.0, loaded=0.0)).splitlines()[0])

    assert [call["function"]["arguments"] for call in told["message"]["tool_calls"]] == calls
