from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lemonpod.drivers.streams import Demultiplexer, PullProgress, complaint, json_objects


def frame(stream: int, text: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(text).to_bytes(4, "big") + text


def pieces(content: bytes, cuts: list[int]) -> Iterator[bytes]:
    at = 0
    for cut in [*sorted(cut % (len(content) + 1) for cut in cuts), len(content)]:
        yield content[at:cut]
        at = cut


FRAMES = st.lists(
    st.tuples(st.sampled_from([1, 2]), st.text("ab\r\n", max_size=12).map(str.encode)), max_size=12
)
CUTS = st.lists(st.integers(0, 500), max_size=30)


@given(FRAMES, CUTS)
def test_a_log_is_the_same_however_it_is_cut(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:  # C23
    content = b"".join(frame(*one) for one in frames)
    whole = Demultiplexer()
    expected = whole.feed(content) + whole.end()
    cut = Demultiplexer()
    assert b"".join(map(cut.feed, pieces(content, cuts))) + cut.end() == expected


@given(FRAMES)
def test_a_log_has_the_lines_of_both_streams(frames: list[tuple[int, bytes]]) -> None:  # C23
    frames_read = Demultiplexer()
    log = b"".join(frames_read.feed(frame(*one)) for one in frames) + frames_read.end()
    streams = [b"".join(text for number, text in frames if number == stream) for stream in (1, 2)]
    lines = [line for text in streams for line in text.replace(b"\r", b"\n").split(b"\n") if line]
    assert sorted(filter(None, log.replace(b"\r", b"\n").split(b"\n"))) == sorted(lines)


def test_half_a_line_waits_for_its_other_half() -> None:  # C23
    log = Demultiplexer()
    assert log.feed(frame(1, b"half") + frame(2, b"error\n")) == b"error\n"
    assert log.feed(frame(1, b" line\nmore")) == b"half line\n"
    assert log.end() == b"more"
    assert log.end() == b""


def test_a_line_without_end_does_not_wait_for_ever() -> None:
    log = Demultiplexer()
    assert len(log.feed(frame(1, b"x" * 100_000))) == 100_000


OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3), max_size=8)


@given(OBJECTS, CUTS, st.sampled_from(["\n", "\r\n"]))
def test_objects_are_the_same_however_they_are_cut(
    objects: list[dict[str, str]], cuts: list[int], end: str
) -> None:
    content = end.join(json.dumps(one) for one in objects).encode()
    assert list(json_objects(pieces(content, cuts))) == [one for one in objects if one]


@pytest.mark.parametrize("line", [b"nonsense", b"[1]", b"", b"[" * 100_000, b"\xff"])
def test_what_is_no_object_is_skipped(line: bytes) -> None:
    assert list(json_objects([line + b'\n{"a": 1}'])) == [{"a": 1}]


def test_a_line_that_never_ends_is_not_kept() -> None:
    flood = [b"x" * (1 << 20)] * 3
    assert list(json_objects([*flood, b'\n{"a": 1}\n'])) == [{"a": 1}]


def event(layer: str, status: str, current: int | None = None, total: int | None = None) -> dict[str, object]:
    detail = {} if current is None else {"current": current, "total": total}
    return {"status": status, "progressDetail": detail, "id": layer}


def test_progress_adds_up_the_layers() -> None:
    progress = PullProgress()
    heard = []
    for one in (
        {"status": "Pulling from library/x", "id": "1"},
        event("a", "Pulling fs layer"),
        event("b", "Already exists"),
        event("a", "Downloading", 10, 100),
        event("c", "Downloading", 20, 50),
        event("a", "Download complete"),
        event("a", "Extracting", 3, 100),
        event("c", "Downloading", 50, 50),
        event("c", "Pull complete"),
        {"status": "Digest: sha256:1"},
    ):
        if progress.hear(one):
            heard.append((progress.done, progress.total))
    assert heard[:3] == [(10, 100), (30, 150), (120, 150)]
    assert heard[-1] == (150, 150)


@example({"id": "", "status": {}, "progressDetail": {}})
@example({"id": "", "status": "Downloading", "progressDetail": {"current": 1, "total": "2"}})
@given(
    st.dictionaries(
        st.sampled_from(["id", "status", "progressDetail", "error", "errorDetail"]),
        st.none()
        | st.text()
        | st.integers()
        | st.dictionaries(
            st.sampled_from(["current", "total", "message"]), st.none() | st.text() | st.integers()
        ),
    )
)
def test_any_object_can_be_an_event(one: dict[str, object]) -> None:
    progress = PullProgress()
    progress.hear(one)
    assert progress.done is not None
    assert progress.total != 0
    complaint(one)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        ({"error": "denied"}, "denied"),
        ({"errorDetail": {"message": "no"}, "error": "no"}, "no"),
        ({"errorDetail": {}, "error": "why"}, "why"),
        ({"status": "Downloading"}, None),
        ({"stream": "Trying to pull x...\n"}, None),
    ],
)
def test_complaints(one: dict[str, object], expected: str | None) -> None:  # C05
    assert complaint(one) == expected
