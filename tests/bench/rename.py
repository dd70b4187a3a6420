"""What looking into an answer costs: `python -m tests.bench.rename [ROUNDS]`, microseconds a segment."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Final

from lemonpod.gateway.data.rename import EventRenamer, renamed
from lemonpod.gateway.data.usage import StreamMeter, usage_in

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


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    for engine, chunk in ENGINES.items():
        events = [chunk % number for number in range(COUNT)]
        halves = [half for event in events for half in (event[:90], event[90:])]
        pairs = [one + other for one, other in zip(events[::2], events[1::2], strict=True)]
        say(f"{engine}: event of {len(events[0])} bytes", rounds, lambda: EventRenamer("asked").feed, events)
        own = json.dumps("gemma").encode()
        said = [
            event.replace(b'"/models/gemma.gguf"', own).replace(b'"/models/gemma"', own) for event in events
        ]
        say(f"{engine}: the same name", rounds, lambda: EventRenamer("gemma").feed, said)
        say(f"{engine}: half an event", rounds, lambda: EventRenamer("asked").feed, halves)
        say(f"{engine}: two events", rounds, lambda: EventRenamer("asked").feed, pairs)
        say(f"{engine}: what it used", rounds, metering, events)
        changing = [event.replace(b"1767225600", b"%d" % number) for number, event in enumerate(events)]
        say(f"{engine}: two things change", rounds, lambda: EventRenamer("asked").feed, changing)
    message = {
        "index": 0,
        "message": {"role": "assistant", "content": "word \n" * 100},
        "finish_reason": "stop",
    }
    body = json.dumps({"choices": [message], "model": "/models/gemma.gguf", "usage": {}}).encode()
    say(f"a body of {len(body)} bytes", rounds, lambda: lambda data: renamed(data, "asked"), [body] * 100)
    say("what it used", rounds, lambda: usage_in, [body] * 100)


def metering() -> Callable[[bytes], object]:
    meter = StreamMeter()
    return lambda segment: meter.feed(segment, 1.0)


def say(
    what: str, rounds: int, make: Callable[[], Callable[[bytes], object]], segments: Iterable[bytes]
) -> None:
    """Print the median over all rounds, and the extremes."""
    segments = list(segments)
    costs = []
    for _ in range(rounds):
        feed = make()
        started = time.perf_counter()
        for segment in segments:
            feed(segment)
        costs.append((time.perf_counter() - started) / len(segments) * 1e6)
    print(f"{what:45} {statistics.median(costs):6.2f} µs ({min(costs):.2f} to {max(costs):.2f})")


if __name__ == "__main__":
    main()
