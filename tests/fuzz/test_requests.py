"""Whatever a client sends, split anywhere: the edge reads the same requests as aiohttp's parser, or refuses.

aiohttp reads all control requests after the edge, and is the parser that many programs in front of engines
have. Where the edge refuses more than it does, it says why.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser

from lemonpod.gateway.data.reader import RequestReader
from lemonpod.gateway.headers import MAX_FIELD
from tests.fuzz.requests import make_stream, split

# Read here, since tests get no environment of the caller's.
STREAMS: Final = int(os.environ.get("FUZZ_STREAMS", "10000"))
_BATCH: Final = 2000
NOT_HTTP: Final = "The request is not HTTP as it should be"


@dataclass(frozen=True)
class Meaning:
    """One request as a parser understood it."""

    method: str
    target: str
    version: tuple[int, int]
    headers: tuple[tuple[str, bytes], ...]
    keep_alive: bool
    body: bytes
    ended: bool


@dataclass(frozen=True)
class Outcome:
    requests: list[Meaning]
    refused: bool
    reason: str | None = None


def by_edge(pieces: list[bytes]) -> Outcome:
    reader = RequestReader()
    taken = []
    for piece in pieces:
        reader.feed(piece)
        while reader.queue:
            taken.append(reader.queue.popleft())
    if reader.fault is not None:
        taken = [request for request in taken if request.ended]
    requests = [
        Meaning(
            method=request.method.decode(),
            target=request.target.decode("utf-8", "surrogateescape"),
            version=(1, 0 if request.is_old else 1),
            headers=tuple((key.decode(), value) for key, _, value in request.fields),
            keep_alive=request.keep_alive,
            body=b"".join(request.pieces),
            ended=request.ended,
        )
        for request in taken
    ]
    reason = None if reader.fault is None else str(reader.fault.envelope["error"])
    return Outcome(requests, reader.fault is not None, reason)


def by_aiohttp(pieces: list[bytes], loop: asyncio.AbstractEventLoop) -> Outcome:
    """A byte at a time: of what comes with something broken in one piece it tells nothing."""
    parser = HttpRequestParser(
        BaseProtocol(loop),
        loop,
        1 << 20,
        max_line_size=MAX_FIELD,
        max_field_size=MAX_FIELD,
        auto_decompress=False,
    )
    seen: list[tuple[Any, Any]] = []
    refused = False
    data = b"".join(pieces)
    for at in range(len(data)):
        if seen and seen[-1][0].should_close and seen[-1][1].is_eof():
            break
        try:
            messages, _, _ = parser.feed_data(data[at : at + 1])
        except HttpProcessingError:
            refused = True
            break
        seen += messages
        if seen and seen[-1][1].exception() is not None:
            refused = True
            break
    return Outcome([_meaning(*one) for one in seen], refused)


def _meaning(message: Any, payload: Any) -> Meaning:
    failed = payload.exception() is not None
    return Meaning(
        method=message.method,
        target=message.path,
        version=tuple(message.version),
        headers=tuple((name.decode("latin-1").lower(), value) for name, value in message.raw_headers),
        keep_alive=not message.should_close,
        body=b"" if failed else payload.read_nowait(),
        ended=payload.is_eof() and not failed,
    )


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("batch", range((STREAMS + _BATCH - 1) // _BATCH))
def test_the_edge_and_aiohttp_read_the_same(batch: int, loop: asyncio.AbstractEventLoop) -> None:
    for seed in range(batch * _BATCH, (batch + 1) * _BATCH):
        generator = random.Random(seed)
        data = make_stream(generator)
        ours = by_edge(split(generator, data))
        theirs = by_aiohttp([data], loop)

        assert ours == by_edge([data]), (seed, data)
        if theirs.refused and not ours.refused:
            ours = by_edge([data, b"\r\n\r\n"])  # of a head that is not whole the edge has said nothing yet
        assert _agree(ours, theirs), (seed, data, ours, theirs)


def _agree(ours: Outcome, theirs: Outcome) -> bool:
    """Up to the first refusal both understood the same; a refusal of the edge's own has a reason."""
    for one, other in zip(ours.requests, theirs.requests, strict=False):
        if one.ended and other.ended:
            if one != other:
                return False
        elif (one.method, one.target, one.headers) != (other.method, other.target, other.headers):
            return False
    whole, their_whole = (sum(one.ended for one in outcome.requests) for outcome in (ours, theirs))
    if ours.refused and ours.reason != NOT_HTTP:
        return whole <= their_whole
    return (whole, ours.refused) == (their_whole, theirs.refused)
