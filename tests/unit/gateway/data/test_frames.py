from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Close, Frame, Opcode

from lemonpod.gateway.data.frames import Frames, close_frame

SIZES = st.sampled_from([0, 1, 125, 126, 127, 300, 65_535, 65_536, 70_000])
FRAMES = st.lists(
    st.builds(
        lambda opcode, size, mask: Frame(opcode, bytes(size)).serialize(mask=mask),
        st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONT]),
        SIZES,
        st.booleans(),
    ),
    max_size=6,
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(edges)]


@given(FRAMES, st.lists(st.integers(0, 1 << 20), max_size=12))
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


@given(FRAMES, st.booleans(), st.lists(st.integers(0, 1 << 20), max_size=12))
def test_nothing_passes_from_a_frame_on_that_is_too_long(
    frames: list[bytes], mask: bool, cuts: list[int]
) -> None:
    follower, before = Frames(70_000), b"".join(frames)
    data = before + Frame(Opcode.BINARY, bytes(70_001)).serialize(mask=mask) + b"\x81\x00"

    passed = b"".join(follower.feed(piece) for piece in pieces(data, cuts))

    assert passed == before
    assert follower.too_long
    assert follower.between


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
