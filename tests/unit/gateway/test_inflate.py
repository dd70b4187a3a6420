"""A compressed body, whatever it is cut into."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.inflate import MAX_PIECE, Inflater


def inflated(coding: str, pieces: list[bytes]) -> bytes:
    inflater = Inflater(coding)
    body = b"".join(part for piece in pieces for part in inflater.feed(piece))
    inflater.close()
    return body


@given(data=st.binary(max_size=300), coding=st.sampled_from(["gzip", "deflate"]), step=st.integers(1, 50))
def test_any_split_inflates_to_the_same(data: bytes, coding: str, step: int) -> None:
    packed = gzip.compress(data) if coding == "gzip" else zlib.compress(data)

    assert inflated(coding, [packed[at : at + step] for at in range(0, len(packed), step)]) == data


@pytest.mark.parametrize("size", [MAX_PIECE - 1, MAX_PIECE, MAX_PIECE + 1, 3 * MAX_PIECE])
def test_what_grows_is_handed_on_in_parts(size: int) -> None:
    parts = list(Inflater("gzip").feed(gzip.compress(bytes(size))))

    assert b"".join(parts) == bytes(size)
    assert max(map(len, parts)) <= MAX_PIECE


def test_nothing_is_nothing() -> None:
    assert inflated("gzip", []) == b""


@given(data=st.binary(max_size=100), coding=st.sampled_from(["gzip", "deflate"]))
def test_no_bytes_raise_anything_but_a_refusal(data: bytes, coding: str) -> None:
    with suppress(MalformedRequestError):
        inflated(coding, [data])
