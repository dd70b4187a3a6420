"""Errors inside streams tell nothing of this machine, however they are split; nothing else is touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemonpod.gateway.data.trouble import EventScrubber
from lemonpod.gateway.sse import EventStream
from tests.factories import make_plan

PLAN = make_plan("/opt/llama/server", "-m", "/srv/models/m.gguf", "--api-key", "sesame-open", port=1)
WORDS = b'data: {"choices":[{"delta":{"content":"see /srv/models/m.gguf, an error: sesame-open"}}]}\n\n'
ERRORS = [
    b'data: {"error":{"message":"cannot read /srv/models/m.gguf","code":500}}\n\n',
    b'data: {"id":1, "error" : {"message":"key sesame-open at /opt/llama/server"}}\r\n\r\n',
    b'data: {"object":"error","message":"no /srv/models/m.gguf"}\n\n',
    b'event: error\ndata: {"message":"no /srv/models/m.gguf"}\n\n',
    b'error: {"code":400,"message":"no /srv/models/m.gguf"}\n\n',
    b'event: response.failed\rdata: {"response":{"error":{"message":"no /srv/models/m.gguf"}}}\r\r',
]


def told(*segments: bytes) -> bytes:
    """As a stream is sent on: untouched up to the first error, then by the scrubber."""
    stream, scrubber, sent = EventStream(), None, b""
    for segment in segments:
        stream.feed(segment)
        if stream.trouble:
            scrubber = scrubber or EventScrubber(PLAN, stream.trouble)
            segment = scrubber.feed(segment)
        sent += segment
    return sent + (scrubber.end() if scrubber else b"")


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_is_told_without_paths_and_secrets(error: bytes) -> None:
    sent = told(WORDS, WORDS + error + WORDS, b"data: [DONE]\n\n")

    before, _, rest = sent.partition(WORDS + WORDS)
    assert before == b""
    shown, _, done = rest.partition(WORDS)
    assert done == b"data: [DONE]\n\n"
    for secret in (b"/srv", b"/opt", b"sesame"):
        assert secret not in shown
    assert shown.endswith(error[-2:])


@pytest.mark.parametrize("error", ERRORS)
def test_wherever_it_is_split(error: bytes) -> None:
    whole = told(WORDS + error + WORDS)
    data = WORDS + error + WORDS
    for at in range(len(WORDS), len(WORDS + error)):
        assert told(data[:at], data[at:]) == whole, data[:at]
    assert told(*(data[at : at + 1] for at in range(len(data)))) == whole


@given(st.lists(st.integers(1, 60), max_size=12), st.sampled_from(ERRORS))
def test_in_any_pieces(cuts: list[int], error: bytes) -> None:
    data = whole = error + WORDS + error[:-3]
    pieces = []
    for cut in cuts:
        pieces.append(data[:cut])
        data = data[cut:]

    assert told(*pieces, data) == told(whole)


@pytest.mark.parametrize(
    "event",
    [
        WORDS,
        b'data: {"response":{"error":null,"path":"/srv/models/m.gguf"}}\n\n',
        b'data: {"choices":[{"delta":{"content":"{\\"error\\":\\"/srv/models/m.gguf\\"}"}}]}\n\n',
        b": error: /srv/models/m.gguf\n\n",
    ],
)
def test_what_a_model_says_is_its_own(event: bytes) -> None:
    assert told(event, event) == event + event
    assert told(ERRORS[0], event).endswith(event)


def test_what_never_ends_is_not_kept_for_ever() -> None:
    scrubber = EventScrubber(PLAN, b"\n")
    begun = scrubber.feed(b'data: {"error":"/srv/models/m.gguf ' + b"x" * 70_000)

    assert len(begun) > 70_000
    assert b"/srv" not in begun + scrubber.feed(b" /srv/models/m.gguf\n\n")
