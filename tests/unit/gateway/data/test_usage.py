"""What an answer used, as it tells or as it was seen."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemonpod.gateway.data.usage import StreamMeter, usage_in
from lemonpod.gateway.stats import Usage, usage_of

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
TIMINGS = {"prompt_n": 5, "prompt_ms": 250.0, "predicted_n": 4, "predicted_per_second": 40.5, "cache_n": 1}
STREAM = (
    b'data: {"choices":[{"delta":{"role":"assistant","content":null}}],"usage":null}\n\n'
    b'data: {"choices":[{"delta":{"content":""}}]}\n\n'
    b'data: {"choices":[{"delta":{"content":"\\"usage\\":{\\"prompt_tokens\\":9} \\"content\\":\\"x"}}]}\n\n'
    b'data: {"choices":[{"delta":{"reasoning_content": "b"}}],"usage":{"prompt_tokens":1}}\n\n'
    b'data: {"choices":[{"text":"c"}]}\n\n'
)
END = b'data: {"choices":[],"usage":%b,"timings":%b}\n\ndata: [DONE]\n\n' % (
    json.dumps(USAGE).encode(),
    json.dumps(TIMINGS).encode(),
)


def metered(data: bytes, sizes: int) -> StreamMeter:
    meter = StreamMeter()
    for number, at in enumerate(range(0, len(data), sizes)):
        meter.feed(data[at : at + sizes], 10.0 + number)
    return meter


def test_a_body_tells_what_it_used() -> None:
    body = json.dumps(
        {"choices": [{"message": {"content": '"usage":{}'}}], "usage": USAGE, "timings": TIMINGS}
    )

    assert usage_in(body.encode()) == Usage(
        input_tokens=7, output_tokens=3, cached_tokens=2, first_token=0.25, speed=40.5
    )


def test_llamas_timings_tell_where_usage_does_not() -> None:
    assert usage_of(None, TIMINGS) == Usage(
        input_tokens=5, output_tokens=4, cached_tokens=1, first_token=0.25, speed=40.5
    )


def test_the_responses_api_has_names_of_its_own() -> None:
    usage = {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 2}, "output_tokens": 3}

    assert usage_of(usage, None) == Usage(input_tokens=7, output_tokens=3, cached_tokens=2)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"usage":null}',
        b'{"usage":7,"timings":[]}',
        b'{"usage":{"prompt_tokens":"7","completion_tokens":true,"prompt_tokens_details":[]}}',
        b'{"usage":{"prompt_tokens":-3,"completion_tokens":1e999,"prompt_tokens_details":{"cached_tokens":NaN}}}',
        b'{"usage":{"prompt_tokens":1' + b"0" * 400 + b"}}",
        b'{"usage":{"prompt_tokens":1' + b"0" * 5000 + b"}}",
        b'{"usage":{"prompt_tokens":1',
        b'{"usage":' + b'{"a":' * 700 + b"}",
        b'{"usage":{"\xff":1}}',
    ],
)
def test_nonsense_is_unknown(body: bytes) -> None:
    assert usage_in(body) == Usage()


@pytest.mark.parametrize("size", [1, 2, 5, 40, 10_000])
def test_a_stream_tells_at_its_end(size: int) -> None:
    meter = metered(STREAM + END, size)

    assert meter.words == 3
    assert (meter.events.done, meter.events.failed, meter.events.between_events) == (True, False, True)
    usage = meter.usage(10.0)
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.speed) == (7, 3, 2, 40.5)


def test_without_being_told_the_words_are_counted() -> None:
    meter = StreamMeter()
    assert meter.usage(0.0) == Usage()

    meter.feed(b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n', 1.0)
    assert meter.first_words is None
    for now in (2.0, 2.5, 3.0):
        meter.feed(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', now)

    assert meter.usage(0.5) == Usage(output_tokens=3, first_token=1.5, speed=2.0)


def test_one_word_has_no_speed() -> None:
    meter = metered(b'data: {"choices":[{"text":"a"}]}\n\n', 1000)

    assert meter.usage(9.0) == Usage(output_tokens=1, first_token=1.0)


def test_the_last_numbers_of_a_stream_count() -> None:
    events = [b'data: {"usage":{"prompt_tokens":7,"completion_tokens":%d}}\n\n' % n for n in range(200)]

    assert metered(b"".join(events), 90).usage(0.0) == Usage(input_tokens=7, output_tokens=199)


@given(st.lists(st.integers(0, len(STREAM + END)), max_size=12))
def test_any_split_tells_the_same(cuts: list[int]) -> None:
    data = STREAM + END
    marks = [0, *sorted(cuts), len(data)]
    meter = StreamMeter()
    for start, end in pairwise(marks):
        meter.feed(data[start:end], 1.0)

    assert (meter.words, meter.usage(0.0)) == (3, metered(data, len(data)).usage(9.0))
