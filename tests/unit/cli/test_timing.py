"""What `lemonpod bench` makes of answers, and of engines that give none."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from lemonpod.cli.timing import Answer, Spread, Way, bodies, compare, in_pairs, measure
from lemonpod.errors import UpstreamError
from tests.unit.cli.conftest import http

Answering = Callable[[bytes], str]


def test_speed_is_of_the_tokens_after_the_first() -> None:
    assert Answer(first_token=1.0, last_token=3.0, tokens=11).tokens_per_second == 5.0
    assert Answer(first_token=1.0, last_token=1.0, tokens=1).tokens_per_second is None


def test_the_difference_is_taken_within_pairs() -> None:
    pairs = [
        (Answer(0.003, 1.0, 1), Answer(0.001, 1.0, 1)),
        (Answer(0.021, 1.0, 1), Answer(0.020, 1.0, 1)),
        (Answer(0.004, 1.0, 1), Answer(0.001, 1.0, 1)),
    ]
    compared = compare("first", "ms", pairs, lambda answer: answer.first_token * 1000)
    assert compared.gateway == Spread(4, 3, 21)
    assert compared.direct == Spread(1, 1, 20)
    assert compared.added is not None
    assert compared.added.median == pytest.approx(2)
    assert compare("speed", "/s", pairs, lambda answer: answer.tokens_per_second).added is None


def test_both_take_turns_in_who_is_first_and_one_pair_is_not_measured() -> None:
    gateway, direct = (Way(url=f"http://127.0.0.1:1/{name}", hint="") for name in ("gateway", "direct"))
    asked: list[str] = []

    def ask(way: Way) -> int:
        asked.append(way.url.rpartition("/")[2])
        return len(asked)

    done: list[int] = []
    assert in_pairs(ask, gateway, direct, 2, done.append) == [(3, 4), (6, 5)]
    assert done == [0, 1, 2]
    assert asked == ["direct", "gateway", "gateway", "direct", "direct", "gateway"]


def test_each_quantity_is_told_of_both_ways(answering: Answering) -> None:
    stream = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: [DONE]\n\n'
    way = Way(url=f"http://127.0.0.1:{answering(http(stream))}/v1", hint="")
    made = list(itertools.islice(bodies("m", "the prompt", 8), 5))
    told: list[str] = []
    measured = measure(way, way, iter(made), 1, told.append)
    assert {one.name for one in measured if one.added is not None} == {
        "time to first token",
        "whole answer",
        "answer of one token",
    }
    assert told == [
        "0 of 1 answers each way",
        "1 of 1 answers each way",
        "0 of 5 answers of one token each way",
        "5 of 5 answers of one token each way",
    ]


def test_no_two_requests_begin_alike() -> None:
    made = bodies("m", "the prompt", 8)
    first, second = (next(made)["messages"][0]["content"] for _ in range(2))
    assert first != second
    assert len(first) == len(second)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", "404 Not Found: none"),
        (http(b"data: [DONE]\n\n"), "no token"),
        (http(b'data: {"error": {"message": "out of memory"}}\n\n'), "out of memory"),
        (http(b"data: nonsense\n\n"), "Expecting value"),
        (http(b"data: []\n\n"), "no object"),
        (b"", "closed connection"),
    ],
)
def test_what_is_no_answer_is_an_error_with_its_place(
    answering: Answering, answer: bytes, reason: str
) -> None:
    url = f"http://127.0.0.1:{answering(answer)}/v1/chat/completions"
    with pytest.raises(UpstreamError, match=reason) as caught:
        Way(url=url, hint="the cure").stream({})
    assert url in caught.value.message
    assert caught.value.hint == "the cure"


def test_thoughts_are_tokens_and_the_engine_counts(answering: Answering) -> None:
    body = (
        b": a comment\n\n"
        b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
        b'data: {"choices": [{"delta": {"reasoning_content": "so"}}]}\n\n'
        b'data: {"choices": [{"delta": {"content": "a b c"}}]}\n\n'
        b'data: {"choices": [], "usage": {"completion_tokens": 4}}\n\n'
        b"data: [DONE]\n\n"
    )
    answer = Way(url=f"http://127.0.0.1:{answering(http(body))}/v1", hint="").stream({})
    assert answer.tokens == 4
    assert 0 < answer.first_token <= answer.last_token
