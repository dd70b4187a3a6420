"""Answers of a chat model, timed on two ways to it. Standard library only, as the rest of the CLI's side."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from lemonpod.errors import UpstreamError

_CONNECT_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One streamed answer, in seconds from the request on."""

    first_token: float
    last_token: float
    tokens: int

    @property
    def tokens_per_second(self) -> float | None:
        """Of those after the first; None where there are no more."""
        took = self.last_token - self.first_token
        return (self.tokens - 1) / took if self.tokens > 1 and took > 0 else None


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, with the least and the most."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread | None:
        """None of nothing."""
        return Spread(statistics.median(values), min(values), max(values)) if values else None


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is told of an answer, and in which unit."""

    name: str
    unit: str
    of: Callable[[Answer], float | None]


QUANTITIES: Final = (
    Quantity("time to first token", "ms", lambda answer: answer.first_token * 1000),
    Quantity("tokens per second", "/s", lambda answer: answer.tokens_per_second),
    Quantity("whole answer", "ms", lambda answer: answer.last_token * 1000),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity on both ways; `added` is the difference within each pair."""

    gateway: Spread | None
    direct: Spread | None
    added: Spread | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to the engine: the address of a chat route."""

    url: str
    hint: str
    """What to do where it gives no answer."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def ask(self, body: Mapping[str, Any]) -> Answer:
        """Raises UpstreamError where there is no answer to be timed."""
        # A connection each: some engines close theirs after a stream, and say so too late.
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_CONNECT_TIMEOUT)
        try:
            with closing(connection):
                connection.connect()
                connection.sock.settimeout(None)  # a long prompt may take minutes
                return _ask(connection, parts.path, body, self.headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            message = f"{self.url} gave no answer that could be timed: {error}"
            raise UpstreamError(message, hint=self.hint) from error


def ask_in_pairs(
    gateway: Way, direct: Way, bodies: Iterator[Mapping[str, Any]], count: int
) -> list[tuple[Answer, Answer]]:
    """So many answers of both, one unmeasured pair before them: it finds caches cold."""
    pairs = []
    for turn in range(-1, count):
        if turn % 2:
            other = direct.ask(next(bodies))
            mine = gateway.ask(next(bodies))
        else:
            mine = gateway.ask(next(bodies))
            other = direct.ask(next(bodies))
        if turn >= 0:
            pairs.append((mine, other))
    return pairs


def compare(pairs: Sequence[tuple[Answer, Answer]], quantity: Quantity) -> Comparison:
    """One quantity of pairs of answers, first the gateway's and then the engine's own."""
    measured = [(quantity.of(mine), quantity.of(other)) for mine, other in pairs]
    known = [(mine, other) for mine, other in measured if mine is not None and other is not None]
    return Comparison(
        Spread.of([mine for mine, _ in known]),
        Spread.of([other for _, other in known]),
        Spread.of([mine - other for mine, other in known]),
    )


def as_json_object(pairs: Sequence[tuple[Answer, Answer]]) -> dict[str, Any]:
    """Every quantity, for programs."""
    return {
        quantity.name.replace(" ", "_"): {"unit": quantity.unit, **asdict(compare(pairs, quantity))}
        for quantity in QUANTITIES
    }


def bodies(name: str, prompt: str, max_tokens: int) -> Iterator[dict[str, Any]]:
    """Requests that are alike, and yet none begins as another did: no engine can answer from its cache."""
    number = time.time_ns()
    while True:
        number += 1
        yield {
            "model": name,
            "messages": [{"role": "user", "content": f"({number}) {prompt}"}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


def _ask(
    connection: http.client.HTTPConnection, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
) -> Answer:
    content = json.dumps(body)
    begun = time.perf_counter()
    connection.request("POST", path, content, {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    if response.status != 200:
        text = response.read(500).decode("utf-8", "replace")
        raise http.client.HTTPException(f"{response.status} {response.reason}: {text}")
    times, counted = [], None
    for event in _events(response):
        if "error" in event:
            raise http.client.HTTPException(f"the stream told of an error: {event['error']}")
        if _has_token(event):
            times.append(time.perf_counter() - begun)
        counted = (event.get("usage") or {}).get("completion_tokens", counted)
    if not times:
        raise http.client.HTTPException("there was no token in its stream")
    # An event may carry several tokens; only the engine knows.
    return Answer(times[0], times[-1], counted or len(times))


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Each event's object as it comes, up to the end of the stream."""
    while line := response.readline():
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or data == b"[DONE]":
            continue
        event = json.loads(data)
        if not isinstance(event, dict):
            raise ValueError(f"an event is no object: {data[:100]!r}")
        yield event


def _has_token(event: Mapping[str, Any]) -> bool:
    """Whether an event brings a part of the answer, or of the thoughts before it."""
    deltas = [choice.get("delta") or {} for choice in event.get("choices") or []]
    return any(delta.get(name) for delta in deltas for name in ("content", "reasoning_content", "tool_calls"))
