"""Where an event stream stands: boundaries, its end, and errors inside it (H27, H29)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemonpod.gateway.sse import DONE, EventStream, error_event


def fed(*chunks: bytes) -> EventStream:
    stream = EventStream()
    for chunk in chunks:
        stream.feed(chunk)
    return stream


@pytest.mark.parametrize(
    ("data", "between"),
    [
        (b"", True),
        (b"data: a\n\n", True),
        (b"data: a\r\n\r\n", True),
        (b"data: a\r\r", True),
        (b": comment\n\n", True),
        (b"data: a\n\ndata: b\n\n", True),
        (b"d", False),
        (b"data: a", False),
        (b"data: a\n", False),
        (b"data: a\r\n", False),
        (b"data: a\r\n\r", False),
        (b'data: {"c":"\xe6\x97', False),
        (b"\xff", False),
    ],
)
def test_a_new_event_may_start_only_between_events(data: bytes, between: bool) -> None:
    assert fed(data).between_events is between
    assert fed(*(data[i : i + 1] for i in range(len(data)))).between_events is between


@pytest.mark.parametrize(
    ("data", "done"),
    [
        (b"data: [DONE]\n\n", True),
        (b"data:[DONE]\n\n", True),
        (b"data: x\n\ndata: [DONE]\r\n\r\n", True),
        (b"data: x\r\rdata: [DONE]\r\r", True),
        (b"data: [DONE]", True),
        (b'data: {"content":"data: [DONE]"}\n\n', False),
        (b'data: {"content":"[DONE]"}\n\n', False),
        (b": data: [DONE]\n\n", False),
        (b"data: [DONE\n\n", False),
        (b"event: done\ndata: x\n\n", False),
    ],
)
def test_done_is_a_line_of_its_own(data: bytes, done: bool) -> None:
    assert fed(data).done is done


@pytest.mark.parametrize(
    ("data", "failed"),
    [
        (b'error: {"code":400,"message":"too long"}\n\ndata: [DONE]\n\n', True),  # H29
        (b'data: {"error":{"message":"x"}}\n\n', True),
        (b'data: {"error" : "x"}\n\n', True),
        (b"event: error\ndata: {}\n\n", True),
        (b'data: {"error":null,"choices":[]}\n\n', False),
        (b'data: {"content":"error: none"}\n\n', False),
        (b'data: {"a":{"error":{}}}\n\n', False),
    ],
)
def test_an_error_inside_the_stream_is_noticed(data: bytes, failed: bool) -> None:
    assert fed(data).failed is failed


@given(st.lists(st.integers(1, 20), min_size=1, max_size=10))
def test_any_split_tells_the_same(cuts: list[int]) -> None:
    data = b'data: {"c":"\xe6\x97\xa5\xff"}\r\n\r\n\ndata: {"error":{"message":"x"}}\n\ndata: [DONE]\n\n'
    chunks = []
    for cut in cuts:
        chunks.append(data[:cut])
        data = data[cut:]
    stream = fed(*chunks, data)

    assert (stream.between_events, stream.done, stream.failed) == (True, True, True)


def test_closing_ends_a_half_event_first() -> None:
    assert fed(b"data: a\n\n").closing(DONE) == DONE
    assert fed(b"data: a").closing(DONE) == b"\n\n" + DONE
    assert fed(b"data: a\n").closing(DONE) == b"\n" + DONE
    assert fed(b"data: a\r\n").closing(DONE) == b"\n" + DONE


def test_an_error_is_one_event_whatever_its_text() -> None:
    event = error_event({"error": {"message": "line\n\nline\r\x00 é"}})

    assert event.endswith(b"\n\n")
    assert b"\n" not in event[:-2]
    assert json.loads(event.removeprefix(b"data: "))["error"]["message"] == "line\n\nline\r\x00 é"
