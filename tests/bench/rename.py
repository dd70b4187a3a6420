"""What looking into an answer costs: `python -m tests.bench.rename`, microseconds a segment."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from lemonpod.gateway.data.rename import EventRenamer, renamed
from lemonpod.gateway.data.usage import StreamMeter, usage_in
from tests.bench import program
from tests.bench.figures import Figure
from tests.bench.program import Run
from tests.bench.report import Report

NAME: Final = "rename"
ENGINES: Final = {
    "llama.cpp": b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":" word %d"}}],'
    b'"created":1767225600,"id":"chatcmpl-abcdefghijklmnopqrstuvwx","model":"/models/gemma.gguf",'
    b'"system_fingerprint":"b7000-abcdef12","object":"chat.completion.chunk"}\n\n',
    "vLLM": b'data: {"id":"chatcmpl-abcdefghijklmnopqrstuvwx","object":"chat.completion.chunk",'
    b'"created":1767225600,"model":"/models/gemma","choices":[{"index":0,"delta":{"content":" word %d"},'
    b'"logprobs":null,"finish_reason":null}]}\n\n',
    "Responses": b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
    b'"item_id":"msg_0","output_index":0,"content_index":0,"delta":" word %d","sequence_number":7}\n\n',
}
COUNT: Final = 2000

Feed = Callable[[bytes], object]


def bench(run: Run) -> Report:
    return Report(name=NAME, figures=[cost(run.times(11, quick=3), *what) for what in _feeds()])


def _feeds() -> Iterator[tuple[str, Callable[[], Feed], Sequence[bytes]]]:
    """What is looked for in which segments."""
    for engine, chunk in ENGINES.items():
        events = [chunk % number for number in range(COUNT)]
        halves = [half for event in events for half in (event[:90], event[90:])]
        pairs = [one + other for one, other in zip(events[::2], events[1::2], strict=True)]
        yield (f"{engine}: event of {len(events[0])} bytes", lambda: EventRenamer("asked").feed, events)
        own = json.dumps("gemma").encode()
        said = [
            event.replace(b'"/models/gemma.gguf"', own).replace(b'"/models/gemma"', own) for event in events
        ]
        yield (f"{engine}: the same name", lambda: EventRenamer("gemma").feed, said)
        yield (f"{engine}: half an event", lambda: EventRenamer("asked").feed, halves)
        yield (f"{engine}: two events", lambda: EventRenamer("asked").feed, pairs)
        yield (f"{engine}: what it used", metering, events)
        changing = [event.replace(b"1767225600", b"%d" % number) for number, event in enumerate(events)]
        yield (f"{engine}: two things change", lambda: EventRenamer("asked").feed, changing)
    message = {
        "index": 0,
        "message": {"role": "assistant", "content": "word \n" * 100},
        "finish_reason": "stop",
    }
    body = json.dumps({"choices": [message], "model": "/models/gemma.gguf", "usage": {}}).encode()
    yield (f"a body of {len(body)} bytes", lambda: lambda data: renamed(data, "asked"), [body] * 100)
    yield ("what it used", lambda: usage_in, [body] * 100)


def metering() -> Feed:
    meter = StreamMeter()
    return lambda segment: meter.feed(segment, 1.0)


def cost(rounds: int, what: str, make: Callable[[], Feed], segments: Sequence[bytes]) -> Figure:
    """Of one segment, in each round."""
    costs = []
    for _ in range(rounds):
        feed = make()
        started = time.perf_counter()
        for segment in segments:
            feed(segment)
        costs.append((time.perf_counter() - started) / len(segments) * 1e6)
    return Figure(what=what, unit="µs", ours=costs)


if __name__ == "__main__":
    program.run(program.parser(__doc__, NAME).parse_args(), bench)
