"""One record for each request that is over."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from lemonpod.engine.api import NO_WAIT, Wait
from lemonpod.gateway.data.activity import Activity, ActivityLog, Ending
from lemonpod.gateway.stats import Stats, Usage


def make_activity(**overrides: Any) -> Activity:
    activity: dict[str, Any] = {
        "started": 1_767_225_600.25,
        "method": "POST",
        "path": "/v1/chat/completions",
        "model": "m",
        "recipe": "llamacpp",
        "status": 200,
        "ending": Ending.COMPLETE,
        "bytes_in": 120,
        "bytes_out": 4000,
        "wait": Wait(queued=0.5, loaded=1.5),
        "total": 2.0,
        "usage": Usage(input_tokens=7, output_tokens=3, cached_tokens=2, first_token=0.25, speed=40.504),
    }
    return Activity(**(activity | overrides))


def test_a_record_is_shown_with_its_units() -> None:
    shown = make_activity().as_json()

    assert json.loads(json.dumps(shown)) == {
        "time": "2026-01-01T00:00:00.250+00:00",
        "method": "POST",
        "path": "/v1/chat/completions",
        "model": "m",
        "recipe": "llamacpp",
        "status": 200,
        "ending": "complete",
        "bytes_in": 120,
        "bytes_out": 4000,
        "queue_ms": 500.0,
        "load_ms": 1500.0,
        "first_token_ms": 250.0,
        "total_ms": 2000.0,
        "input_tokens": 7,
        "cached_tokens": 2,
        "output_tokens": 3,
        "tokens_per_second": 40.5,
    }


def test_the_unknown_is_null() -> None:
    activity = make_activity(
        model=None,
        recipe=None,
        status=None,
        ending=Ending.CLIENT_LEFT,
        wait=NO_WAIT,
        usage=Usage(),
    )

    unknown = [name for name, value in activity.as_json().items() if value is None]
    assert unknown == [
        *("model", "recipe", "status", "queue_ms", "load_ms", "first_token_ms"),
        *("input_tokens", "cached_tokens", "output_tokens", "tokens_per_second"),
    ]
    assert str(activity) == ("POST /v1/chat/completions: - client_left, 2000.0 ms, 120 bytes in, 4000 out")


def test_only_the_last_ones_are_kept_in_their_order() -> None:
    activities = ActivityLog(Stats(), slow=1, kept=3)
    for number in range(5):
        activities.add(make_activity(bytes_in=number))

    def shown(count: int) -> list[object]:
        return [record["bytes_in"] for record in activities.tail(count)]

    assert [shown(count) for count in (2, 3, 100, 0, -1)] == [[3, 4], [2, 3, 4], [2, 3, 4], [], []]


@pytest.mark.parametrize(
    ("slow", "ending", "total", "level"),
    [
        (1.0, Ending.COMPLETE, 0.99, logging.DEBUG),
        (1.0, Ending.COMPLETE, 1.0, logging.INFO),
        (0.0, Ending.COMPLETE, 0.0, logging.INFO),
        *((1.0, ending, 0.0, logging.INFO) for ending in Ending if ending is not Ending.COMPLETE),
    ],
)
def test_what_failed_or_was_slow_is_seen_by_default(
    caplog: pytest.LogCaptureFixture, slow: float, ending: Ending, total: float, level: int
) -> None:
    with caplog.at_level(logging.DEBUG):
        ActivityLog(Stats(), slow=slow).add(make_activity(ending=ending, total=total))

    assert [record.levelno for record in caplog.records] == [level]


def test_each_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    activities = ActivityLog(Stats(), slow=0)

    with caplog.at_level(logging.DEBUG):
        activities.add(make_activity())
        activities.add(make_activity(model="a\nb" * 1000, recipe=None))

    first, second = caplog.messages
    assert first == (
        "POST /v1/chat/completions: 200 complete, m on llamacpp, 2000.0 ms,"
        " queued 500.0 ms, loaded 1500.0 ms, first token 250.0 ms,"
        " 7 tokens in, 3 tokens out, 40.5 tokens/s, 120 bytes in, 4000 out"
    )
    assert "\n" not in second
    assert "tokens in" not in str(make_activity(usage=Usage(output_tokens=2)))
    assert len(second) < 1000


def test_what_it_used_is_counted() -> None:
    stats = Stats()
    activities = ActivityLog(stats, slow=1)

    activities.add(make_activity())
    activities.add(make_activity(usage=Usage(output_tokens=4, first_token=0.5)))
    activities.add(make_activity(usage=Usage()))

    shown = stats.as_json()
    assert (shown["input_tokens_total"], shown["output_tokens_total"]) == (7, 7)
    assert (shown["input_tokens"], shown["output_tokens"], shown["cache_tokens"]) == (0, 4, None)
    assert shown["time_to_first_token"] == 0.5
