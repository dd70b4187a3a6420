from __future__ import annotations

import asyncio
import re

from hypothesis import given
from hypothesis import strategies as st

from lemonpod.engine.logbuf import LineSplitter, LogBuffer, clean
from tests.waiting import until


def split(*chunks: bytes, limit: int = 1000) -> list[bytes]:
    lines: list[bytes] = []
    splitter = LineSplitter(lines.extend, max_line_bytes=limit)
    for chunk in chunks:
        splitter.feed(chunk)
    splitter.flush()
    return lines


def test_lines_end_at_newlines_and_returns() -> None:  # L13
    assert split(b"a\nb\r\nc\rd\n\n\re") == [b"a", b"b", b"c", b"d", b"e"]


def test_a_long_line_is_cut_and_says_so() -> None:  # L13
    mark = " … [90 more bytes cut]".encode()
    assert split(b"x" * 100 + b"\nnext\n", limit=10) == [b"x" * 10 + mark, b"next"]
    assert split(b"x" * 55, b"x" * 45, b"\nnext", limit=10) == [b"x" * 10 + mark, b"next"]
    assert split(b"one\n" + b"x" * 100 + b"\ntwo\n", limit=10) == [b"one", b"x" * 10 + mark, b"two"]


def test_a_line_without_end_takes_no_more_memory() -> None:  # L13
    lines: list[bytes] = []
    splitter = LineSplitter(lines.extend, max_line_bytes=10)
    for _ in range(1000):
        splitter.feed(b"y" * 1000)
    assert len(splitter._open) == 10
    splitter.flush()
    assert lines == [b"y" * 10 + " … [999990 more bytes cut]".encode()]


@given(st.lists(st.binary(max_size=6) | st.sampled_from([b"\r", b"\n", b"\r\n", b"ab"])))
def test_lines_do_not_depend_on_how_the_stream_was_chunked(chunks: list[bytes]) -> None:  # L13
    whole = b"".join(chunks)
    assert split(*chunks) == split(whole) == [line for line in re.split(rb"[\r\n]", whole) if line]


@given(st.binary())
def test_anything_becomes_printable_text(raw: bytes) -> None:  # L13
    text = clean(raw)
    assert not set(text) & {chr(code) for code in (*range(32), *range(127, 160)) if chr(code) != "\t"}


def test_escapes_are_taken_out() -> None:  # L13
    assert clean(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\x00\x1bM\tend") == "red plain\tend"
    assert clean(b"\xff caf\xc3\xa9") == "\ufffd café"


async def collect(
    buffer: LogBuffer, *, tail: int | None = None, follow: bool = False
) -> list[tuple[int, str]]:
    return [(line.seq, line.text) async for line in buffer.read(tail=tail, follow=follow)]


async def test_the_ring_is_bounded_by_lines_and_by_bytes() -> None:
    buffer = LogBuffer(max_lines=3, max_bytes=100, clock=lambda: 1.5)
    buffer.extend([b"a", b"b", b"c", b"d"])
    assert await collect(buffer) == [(1, "b"), (2, "c"), (3, "d")]
    assert buffer.tail(2) == ("c", "d")
    assert buffer.tail(0) == ()
    buffer.extend([b"x" * 60, b"y" * 60])
    assert await collect(buffer) == [(5, "y" * 60)]
    buffer.extend([b"z" * 600])  # the newest is kept whatever it takes
    assert await collect(buffer) == [(6, "z" * 600)]


async def test_a_tail_and_what_follows() -> None:
    buffer = LogBuffer()
    buffer.extend([b"a", b"b"])
    following = asyncio.create_task(collect(buffer, tail=1, follow=True))
    await asyncio.sleep(0)
    buffer.extend([b"c"])
    await asyncio.sleep(0)
    buffer.extend([b"d", b"e"])
    buffer.close()
    assert await following == [(1, "b"), (2, "c"), (3, "d"), (4, "e")]
    assert await collect(buffer, tail=100) == [(n, text) for n, text in enumerate("abcde")]


async def test_a_slow_reader_loses_the_oldest_lines_and_sees_the_gap() -> None:  # L12
    buffer = LogBuffer(max_lines=2)
    buffer.extend([b"0", b"1"])
    reader = buffer.read(follow=True)
    assert (await anext(reader)).seq == 0
    buffer.extend([b"2", b"3", b"4"])
    assert (await anext(reader)).seq == 3
    await reader.aclose()


async def test_a_hundred_readers_leave_nothing_behind() -> None:
    buffer = LogBuffer()
    seen: list[int] = []

    async def read() -> None:
        async for line in buffer.read(follow=True):
            seen.append(line.seq)

    readers = [asyncio.create_task(read()) for _ in range(100)]
    await asyncio.sleep(0)
    buffer.extend([b"x"])
    await until(lambda: len(seen) == 100)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    buffer.close()
