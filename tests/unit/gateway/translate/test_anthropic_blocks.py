"""The blocks of a streamed message: one is open at a time, in whatever order an engine tells of them."""

from __future__ import annotations

from typing import Any

import pytest

from lemonpod.errors import UpstreamError
from lemonpod.gateway.translate.anthropic_answer import AnthropicStream
from lemonpod.gateway.translate.question import Took
from tests.unit.gateway.translate.streams import call_part, delta, events

TOOK = Took(total=3.0, loaded=1.0)

Part = tuple[int, str]
"""Which call, and what comes of its arguments."""


def message_of(parts: list[Part | str]) -> list[dict[str, Any]]:
    """The blocks that a client builds of calls' fragments and words, which it must be told in order."""
    stream, told, begun = AnthropicStream("m", []), b"", set()
    for part in parts:
        if isinstance(part, str):
            told += stream.event(delta(content=part))
            continue
        number, arguments = part
        more = {} if number in begun else {"id": f"t{number}", "function": {"name": f"f{number}"}}
        begun.add(number)
        told += stream.event(delta(tool_calls=[call_part(number, arguments, **more)]))
    blocks: list[dict[str, Any]] = []
    is_open = False
    for name, event in events(told + stream.end(TOOK)):
        if name == "content_block_start":
            assert not is_open
            assert event["index"] == len(blocks)
            blocks.append(event["content_block"] | {"said": ""})
        elif name in ("content_block_delta", "content_block_stop"):
            assert is_open
            assert event["index"] == len(blocks) - 1
            said = event.get("delta", {})
            blocks[-1]["said"] += said.get("partial_json", "") + said.get("text", "")
        is_open = name in ("content_block_start", "content_block_delta")
    return blocks


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([(0, "{}"), (1, "{}")], ["{}", "{}"]),
        ([(0, "{"), (1, "{"), (0, "}"), (1, "}")], ["{}", "{}"]),
        ([(0, ""), (1, ""), (1, "{}"), (0, "{}")], ["{}", "{}"]),
        ([(0, '{"a":"}'), (1, "{}"), (0, "\\"), (0, '"{"'), (0, "}")], ['{"a":"}\\"{"}', "{}"]),
        ([(0, '{"a":[{'), (1, "{"), (2, "{}"), (0, "}]}"), (1, "}")], ['{"a":[{}]}', "{}", "{}"]),
        ([(0, "{"), (1, "{}")], ["{", "{}"]),
        ([(0, "{}"), (1, "{"), (0, " \n"), (1, "}")], ["{}", "{}"]),
        (["a", (0, "{"), "b", (0, "}"), "c"], ["a", "{}", "bc"]),
        (["a", (0, "{}"), "b", (1, "{}")], ["a", "{}", "b", "{}"]),
    ],
)
def test_calls_at_the_same_time_become_blocks_one_after_another(
    parts: list[Part | str], said: list[str]
) -> None:
    blocks = message_of(parts)

    assert [block["said"] for block in blocks] == said
    calls = [block for block in blocks if block["type"] == "tool_use"]
    assert [block["name"] for block in calls] == [f"f{number}" for number in range(len(calls))]


def test_a_call_is_told_as_it_comes_although_another_waits() -> None:
    stream = AnthropicStream("m", [])
    for index in (0, 1):
        stream.event(delta(tool_calls=[call_part(index, "{", id=f"t{index}", function={"name": "pick"})]))

    first = events(stream.event(delta(tool_calls=[call_part(0, '"a":')])))
    second = events(stream.event(delta(tool_calls=[call_part(1, '"b":')])))
    both = events(stream.event(delta(tool_calls=[call_part(0, "1}")])))

    assert [event["delta"]["partial_json"] for _, event in first] == ['"a":']
    assert second == []
    assert [(name, event["index"]) for name, event in both] == [
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_delta", 1),
    ]


def test_a_call_that_goes_on_behind_its_end() -> None:
    with pytest.raises(UpstreamError, match="whose arguments were complete"):
        message_of([(0, "{}"), (1, "{}"), (0, "{}")])
