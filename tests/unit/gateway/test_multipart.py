"""Finding the model's name in a multipart body as it passes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.multipart import MAX_PARTS, MAX_VALUE, FieldFinder, boundary_of

MODEL = b'Content-Disposition: form-data; name="model"\r\n\r\nwhisper-1'
FILE = b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'


def body(*parts: bytes, boundary: bytes = b"XX") -> bytes:
    opened = b"".join(b"--" + boundary + b"\r\n" + part + b"\r\n" for part in parts)
    return opened + b"--" + boundary + b"--\r\n"


def find(data: bytes, *, step: int = 1 << 20, name: str = "model", boundary: bytes = b"XX") -> str | None:
    finder = FieldFinder(boundary, name)
    for start in range(0, len(data), step):
        finder.feed(data[start : start + step])
    finder.close()
    return finder.value


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize(
    ("parts", "model"),
    [
        ((MODEL, FILE + b"RIFF"), "whisper-1"),
        ((FILE + b"RIFF\r\n--X", MODEL), "whisper-1"),
        ((FILE + b'name="model"\r\n\r\nno',), None),
        ((b"content-disposition: FORM-DATA; name=model\r\n\r\n\xc3\xa9",), "é"),
        ((b'Content-Disposition: form-data; name="model"\r\n\r\n',), ""),
        ((b"\r\nno headers at all", MODEL), "whisper-1"),
        ((b'X: "; name=\\"model\\""\r\n\r\nno',), None),
        ((b'Content-Disposition: form-data; name="model2"\r\n\r\nno', MODEL), "whisper-1"),
    ],
)
def test_the_field_is_found_wherever_it_is(parts: tuple[bytes, ...], model: str | None, step: int) -> None:
    assert find(body(*parts), step=step) == model


def test_text_around_the_parts_means_nothing() -> None:
    assert find(b"preamble\r\n" + body(MODEL) + b"epilogue\r\n--XX\r\n") == "whisper-1"


def test_space_after_a_boundary_is_allowed() -> None:
    assert find(body(MODEL).replace(b"--XX\r\n", b"--XX \t\r\n")) == "whisper-1"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no closing boundary"),
        (b"--XX\r\n" + MODEL, "no closing boundary"),
        (body(MODEL, MODEL), "comes twice"),
        (body(MODEL + b"x" * (MAX_VALUE + 1)), "too long"),
        (body(b"X: " + b"y" * (20 << 10) + b"\r\n\r\n"), "headers of a multipart part are too long"),
        (body(FILE + b"a\r\n--XXY\r\n"), "broken boundary line"),
        (b"--XX" + b" " * (20 << 10), "broken boundary line"),
        (body(*[b"\r\n"] * (MAX_PARTS + 1)), f"more than {MAX_PARTS} parts"),
        (body(b'Content-Disposition: form-data; name="model"\r\n\r\n\xff'), "not UTF-8"),
    ],
)
def test_a_broken_body_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(MalformedRequestError, match=message):
        find(data, step=4096)


def test_a_huge_file_is_not_kept() -> None:
    finder = FieldFinder(b"XX", "model")
    finder.feed(b"--XX\r\n" + FILE)
    for _ in range(100):
        finder.feed(b"\r\n" * 5000)
        assert len(finder._buffer) < 100


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=abc", b"abc"),
        ('Multipart/Form-Data; charset=utf-8; boundary="a b;c"', b"a b;c"),
    ],
)
def test_the_boundary_is_read_from_the_header(content_type: str, boundary: bytes) -> None:
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/mixed; boundary=a",
        "multipart/form-data; boundary=" + "x" * 71,
        "multipart/form-data; boundary=é",
        "multipart/form-data; boundary*=undefined''abc",
        "multipart/form-data; boundary*=a\0b''abc",
    ],
)
def test_a_header_without_a_usable_boundary_is_refused(content_type: str) -> None:
    with pytest.raises(MalformedRequestError):
        boundary_of(content_type)


@pytest.mark.parametrize("charset", ["undefined", "idna", "punycode", "unicode_escape", "a\0b"])
def test_a_file_name_that_nobody_can_read_is_refused(charset: str) -> None:
    head = f"Content-Disposition: form-data; name=a; filename*={charset}''\\ud800%ff"
    with pytest.raises(MalformedRequestError, match="file name"):
        find(body(head.encode() + b"\r\n\r\nx"))


@given(st.lists(st.binary(max_size=30), max_size=4), st.integers(1, 40), st.integers(0, 4))
def test_any_split_finds_the_same(files: list[bytes], step: int, place: int) -> None:
    parts = [FILE + data for data in files if b"XX" not in data]
    parts.insert(place, MODEL)

    assert find(body(*parts), step=step) == "whisper-1"


@given(st.binary(max_size=200), st.integers(1, 50))
def test_no_bytes_raise_anything_but_a_refusal(data: bytes, step: int) -> None:
    with suppress(MalformedRequestError):
        find(b"--XX\r\n" + data, step=step)
