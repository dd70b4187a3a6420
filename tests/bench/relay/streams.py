"""Many event streams at once, in a process of its own: `python -m tests.bench.relay.streams PORT …`.

It says one line of JSON once every stream has had its first event, one when the window that is measured is
over, and one when every stream has ended. Only what came within the window counts.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from itertools import pairwise
from typing import Final, cast

import uvloop

from tests.bench.figures import percentile
from tests.bench.relay.client import Address, chat_request

_OPENING: Final = 32
"""Connections that are opened at a time: no listener's queue overflows."""
_DONE: Final = b"data: [DONE]"
_END: Final = b"0\r\n\r\n"
_TOKEN: Final = b'"content"'
_PATIENCE: Final = 60.0


class Stream(asyncio.Protocol):
    """One stream. Notes when its pieces come; a piece may hold several events, or a part of one."""

    def __init__(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.begun = loop.create_future()
        self.ended = loop.create_future()
        self.events = 0
        self.times: list[float] = []
        self.error: str | None = None
        self._request = request
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if not self._tail and not data.startswith(b"HTTP/1.1 200"):
            self.error = f"answered {data[:300]!r}"
            self._transport.abort()
            return
        # What is looked for may stand across two pieces; none of it fits into the part that is kept twice.
        keep = len(_TOKEN) - 1
        came = (self._tail[-keep:] + data).count(_TOKEN)
        if came:
            self.times += [now] * came
            self.events += came
            if not self.begun.done():
                self.begun.set_result(None)
        self._tail = (self._tail + data)[-64:]
        if self._tail.endswith(_END) and not self.ended.done():
            if _DONE not in self._tail:
                self.error = "ended without [DONE]"
            self.ended.set_result(None)
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.error = self.error or f"broke off after {self.events} events: {error}"
            self.ended.set_result(None)
        if not self.begun.done():
            self.begun.set_result(None)


async def run(port: int, streams: int, rate: float, seconds: float, hold: float) -> None:
    """Open all, measure for `seconds`, wait for the end of each; streams last `hold` longer than that."""
    events = round(rate * (seconds + hold))
    request = chat_request(stream=True, max_tokens=events, events_per_second=rate)
    gate = asyncio.Semaphore(_OPENING)
    loop = asyncio.get_running_loop()

    async def open_one() -> Stream:
        stream = Stream(request)
        async with gate:
            try:
                await loop.create_connection(lambda: stream, *Address(port).pair)
                await asyncio.wait_for(asyncio.shield(stream.begun), _PATIENCE)
            except (OSError, TimeoutError) as error:
                stream.error = f"did not begin: {error!r}"
                if not stream.ended.done():
                    stream.ended.set_result(None)
        return stream

    opened = await asyncio.gather(*(open_one() for _ in range(streams)))
    gc.disable()
    begin = time.perf_counter()
    say(open=sum(not stream.ended.done() for stream in opened))
    await asyncio.sleep(seconds)
    end = time.perf_counter()
    say(events=sum(begin <= moment < end for stream in opened for moment in stream.times))
    await asyncio.wait([stream.ended for stream in opened], timeout=_PATIENCE)
    errors = [error for stream in opened if (error := failure(stream, events))]
    gaps = [gap for stream in opened for gap in gaps_of(stream.times, begin, end)]
    say(
        errors=len(errors),
        first_error=errors[0] if errors else None,
        gap_p50=percentile(gaps, 50),
        gap_p99=percentile(gaps, 99),
    )


def failure(stream: Stream, events: int) -> str | None:
    """What is wrong with a stream, if anything is."""
    if stream.error:
        return stream.error
    if not stream.ended.done():
        return f"no end after {stream.events} of {events} events"
    return None if stream.events == events else f"{stream.events} of {events} events"


def gaps_of(times: list[float], begin: float, end: float) -> list[float]:
    """Seconds between one event and the next, within the window."""
    within = [moment for moment in times if begin <= moment < end]
    return [later - sooner for sooner, later in pairwise(within)]


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--hold", type=float, required=True)
    said = parser.parse_args()
    uvloop.run(run(said.port, said.streams, said.rate, said.seconds, said.hold))


if __name__ == "__main__":
    main()
