from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Close, Frame, Opcode

from lemonpod.gateway.data.frames import Frames, close_frame

SIZES = st.sampled_from([0, 1, 125, 126, 127, 300, 65_535, 65_536, 70_000])
MASKS = st.none() | st.binary(min_size=4, max_size=4)
CUTS = st.lists(st.integers(0, 1 << 20), max_size=12)


def zeros(opcode: Opcode, size: int, mask: bytes | None) -> bytes:
    """A frame of `size` zeros; a mask makes it a client's."""
    frame = Frame(opcode, bytes(size)).serialize(mask=False)
    if mask is None:
        return frame
    head = len(frame) - size
    payload = (mask * (size // 4 + 1))[:size]
    return bytes((frame[0], frame[1] | 0x80)) + frame[2:head] + mask + payload


FRAMES = st.lists(
    st.builds(zeros, st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONT]), SIZES, MASKS), max_size=6
)
HEADS = st.sampled_from(
    [
        b"\x82\x05",
        b"\x82\xfe",
        b"\x81\x7e\x00",
        b"\x02\x7f",
        b"\x88\x02\x03\xe8",
        b"\xff\xff",
        b"\x82\x7f" + b"\xff" * 8,
    ]
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(edges)]


@given(FRAMES, CUTS)
def test_all_passes_and_where_frames_begin_is_known(frames: list[bytes], cuts: list[int]) -> None:
    follower, data = Frames(70_000), b"".join(frames)
    edges = {sum(map(len, frames[:count])) for count in range(len(frames) + 1)}
    passed = b""
    for piece in pieces(data, cuts):
        passed += follower.feed(piece)
        assert follower.between == (len(passed) in edges)
        assert data.startswith(passed)
    assert passed == data
    assert not follower.too_long
    assert not follower.closed


@given(FRAMES, MASKS, CUTS)
def test_nothing_passes_from_a_frame_on_that_is_too_long(
    frames: list[bytes], mask: bytes | None, cuts: list[int]
) -> None:
    follower, before = Frames(70_000), b"".join(frames)
    data = before + zeros(Opcode.BINARY, 70_001, mask) + b"\x81\x00"

    passed = b"".join(follower.feed(piece) for piece in pieces(data, cuts))

    assert passed == before
    assert follower.too_long
    assert follower.between


@given(st.lists(st.binary(max_size=6) | HEADS, max_size=12).map(b"".join), CUTS)
def test_even_of_rubbish_the_split_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    whole, follower = Frames(300), Frames(300)
    expected = whole.feed(data)

    passed = b"".join(follower.feed(piece) for piece in pieces(data, cuts))

    assert passed == expected
    assert data.startswith(passed)
    assert (follower.too_long, follower.closed) == (whole.too_long, whole.closed)
    assert follower.between == whole.between


def test_a_length_beyond_all_reason_is_too_long() -> None:
    follower = Frames(64 << 20)

    assert follower.feed(b"\x82\x7f" + b"\xff" * 8) == b""
    assert follower.too_long


def test_a_close_frame_is_noticed_once_its_head_is_whole() -> None:
    follower = Frames(100)
    frame = Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=True)

    assert follower.feed(frame[:5]) == b""
    assert not follower.closed
    assert follower.feed(frame[5:]) == frame
    assert follower.closed


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("reason", ["", "gone", "ä" * 200, "\ud800"])
def test_our_own_close_frame_is_one(masked: bool, reason: str) -> None:
    data = close_frame(1011, reason, masked=masked)

    assert data[0] == 0x88
    assert bool(data[1] & 0x80) is masked
    payload = data[6:] if masked else data[2:]
    if masked:
        payload = bytes(byte ^ data[2 + at % 4] for at, byte in enumerate(payload))
    assert len(payload) == data[1] & 0x7F <= 125
    told = Close.parse(payload)
    assert told.code == 1011
    assert told.reason == reason.encode("utf-8", "replace").decode()[: len(told.reason)]
