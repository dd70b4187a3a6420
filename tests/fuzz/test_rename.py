"""Whatever an engine sends: searches and steps agree, and where it is split makes no difference."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod.gateway.data.rename import EventRenamer, JsonRenamer, renamed
from lemonpod.gateway.data.usage import StreamMeter
from tests.unit.gateway.data.test_rename import CHUNKS, CUTS, PATH, by_events, split

BITS = st.sampled_from(
    [b'"model"', b'"model":"', b'"model":"a"', b'"response":{', b'"content":"', b"\\u006d", b'"', b"\\", b"{",
     b"}", b"[", b"]", b":", b",", b"x", b" ", b"\xff", b"null", b"data:", b"data: {", b"\n", b"\r", b"\n\n",
     b"\r\n\r\n"]
)  # fmt: skip


@given(st.lists(BITS, max_size=40).map(b"".join), CUTS)
@settings(max_examples=1500)
def test_even_of_rubbish_the_split_makes_no_difference(data: bytes, cuts: list[int]) -> None:  # H27
    renamer = EventRenamer("new")
    sent = b"".join([renamer.feed(segment) for segment in split(data, cuts)])

    assert sent == by_events(data, name="new") == by_events(data, size=1, name="new")
    assert by_events(sent, name="new") == sent


@given(st.lists(BITS, max_size=40).map(b"".join), CUTS)
@settings(max_examples=700)
def test_one_go_and_steps_agree_on_bodies(data: bytes, cuts: list[int]) -> None:
    renamer = JsonRenamer("new")

    assert b"".join([renamer.feed(piece) for piece in split(data, cuts)]) == renamed(data, "new")


@given(
    st.lists(
        st.tuples(st.sampled_from(list(CHUNKS.values())), st.lists(BITS, max_size=4).map(b"".join)),
        max_size=8,
    )
)
@settings(max_examples=700)
def test_a_form_decides_as_the_steps_do(told: list[tuple[bytes, bytes]]) -> None:
    renamer, quick = EventRenamer("new"), EventRenamer("new")
    meter, steps = StreamMeter(), StreamMeter()
    stream = [chunk.replace(b"MODEL", PATH).replace(b"WORDS", b'"%b"' % words) for chunk, words in told]
    sent = []
    for event in stream:
        steps.feed(event, 1.0)
        usual = quick.usual(event)
        if usual is None:
            meter.feed(event, 1.0)
        else:
            meter.another(1.0)
        sent.append(quick.feed(event) if usual is None else usual)

    expected = by_events(b"".join(stream), size=1, name="new")
    assert b"".join(sent) == b"".join([renamer.feed(event) for event in stream]) == expected
    if not any(b'"' in words for _, words in told):  # which would be no words
        assert meter.words == steps.words
        assert meter.usage(0.0) == steps.usage(0.0)
    assert (meter.events.done, meter.events.failed) == (steps.events.done, steps.events.failed)
    assert meter.events.between_events == steps.events.between_events
