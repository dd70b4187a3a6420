"""Answers of a chat model, timed on two ways to it. Standard library only, as the rest of the CLI's side."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from lemonpod.errors import UpstreamError

_CONNECT_TIMEOUT: Final = 5.0
_LEAST_EACH: Final = 5
"""So many answers of one token for each that is whole: they are short, and what is looked for is small."""

T = TypeVar("T")


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
class Comparison:
    """One quantity on both ways; `added` is the difference within each pair."""

    name: str
    unit: str
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

    def stream(self, body: Mapping[str, Any]) -> Answer:
        """Raises UpstreamError where there is no answer to be timed."""
        return self._ask(body, _stream)

    def seconds(self, body: Mapping[str, Any]) -> float:
        """Until the whole answer has come; raises UpstreamError where there is none."""
        return self._ask(body, _read)

    def _ask(self, body: Mapping[str, Any], read: Callable[[http.client.HTTPResponse, float], T]) -> T:
        # A connection each: some engines close theirs after a stream, and say so too late.
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_CONNECT_TIMEOUT)
        try:
            with closing(connection):
                connection.connect()
                connection.sock.settimeout(None)  # a long prompt may take minutes
                begun = time.perf_counter()
                headers = {"Content-Type": "application/json", **self.headers}
                connection.request("POST", parts.path, json.dumps(body), headers)
                return read(_accepted(connection.getresponse()), begun)
        except (OSError, http.client.HTTPException, ValueError) as error:
            message = f"{self.url} gave no answer that could be timed: {error}"
            raise UpstreamError(message, hint=self.hint) from error


def measure(
    gateway: Way,
    direct: Way,
    bodies: Iterator[Mapping[str, Any]],
    count: int,
    tell: Callable[[str], None],
) -> list[Comparison]:
    """Everything that is told of so many answers each way; `tell` hears how far it has come.

    An engine's own times differ by more than a gateway adds, so what it adds is best seen where the engine
    has next to nothing to do: the last quantity is of more requests, alike and for one token.
    """

    def done(pairs: int) -> None:
        tell(f"{pairs} of {count} answers each way")

    def least_done(pairs: int) -> None:
        if pairs % _LEAST_EACH == 0:
            tell(f"{pairs} of {count * _LEAST_EACH} answers of one token each way")

    answers = in_pairs(lambda way: way.stream(next(bodies)), gateway, direct, count, done)
    shortest = {**next(bodies), "max_tokens": 1, "stream": False}
    del shortest["stream_options"]  # which only a stream may have
    least = in_pairs(lambda way: way.seconds(shortest), gateway, direct, count * _LEAST_EACH, least_done)
    return [
        compare("time to first token", "ms", answers, lambda answer: answer.first_token * 1000),
        compare("tokens per second", "/s", answers, lambda answer: answer.tokens_per_second),
        compare("whole answer", "ms", answers, lambda answer: answer.last_token * 1000),
        compare("answer of one token", "ms", least, lambda seconds: seconds * 1000),
    ]


def in_pairs(
    ask: Callable[[Way], T], gateway: Way, direct: Way, count: int, done: Callable[[int], None]
) -> list[tuple[T, T]]:
    """So many answers of both, one unmeasured pair before them: it finds caches cold.

    `done` hears after each how many are measured.
    """
    pairs: list[tuple[T, T]] = []
    for turn in range(-1, count):
        if turn % 2:
            other = ask(direct)
            mine = ask(gateway)
        else:
            mine = ask(gateway)
            other = ask(direct)
        if turn >= 0:
            pairs.append((mine, other))
        done(len(pairs))
    return pairs


def compare(
    name: str, unit: str, pairs: Sequence[tuple[T, T]], of: Callable[[T], float | None]
) -> Comparison:
    """One quantity of pairs, first the gateway's and then the engine's own."""
    measured = [(of(mine), of(other)) for mine, other in pairs]
    known = [(mine, other) for mine, other in measured if mine is not None and other is not None]
    return Comparison(
        name,
        unit,
        Spread.of([mine for mine, _ in known]),
        Spread.of([other for _, other in known]),
        Spread.of([mine - other for mine, other in known]),
    )


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


def _accepted(response: http.client.HTTPResponse) -> http.client.HTTPResponse:
    if response.status != 200:
        text = response.read(500).decode("utf-8", "replace")
        raise http.client.HTTPException(f"{response.status} {response.reason}: {text}")
    return response


def _read(response: http.client.HTTPResponse, begun: float) -> float:
    response.read()
    return time.perf_counter() - begun


def _stream(response: http.client.HTTPResponse, begun: float) -> Answer:
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
