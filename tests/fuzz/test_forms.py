"""A form that is read and written says what it said; and nothing that is no form is taken for one."""

from __future__ import annotations

import contextlib
import tempfile

from hypothesis import given
from hypothesis import strategies as st

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.form import Part, read_form, write_form
from lemonpod.gateway.multipart import FieldFinder

BOUNDARY = b"b-1"
# What a header can hold between quotes: no control characters, and no line ends of any kind.
plain = st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters='"\\%')
names = st.text(plain, min_size=1)
contents = st.binary(max_size=60).filter(lambda content: BOUNDARY not in content)
texts = st.text(st.characters(codec="utf-8"), max_size=30).filter(lambda text: "b-1" not in text)
pieces = st.sampled_from(
    [
        b"--b-1",
        b"\r\n",
        b"--",
        b"\r\n\r\n",
        b"a",
        b" ",
        b"content-disposition: form-data; name=x",
        b'"',
        b"\0",
    ]
)


@given(st.lists(st.tuples(names, texts) | st.tuples(names, contents, names), max_size=6))
def test_what_is_written_is_read(fields: list[tuple[str, str] | tuple[str, bytes, str]]) -> None:
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        parts, at = [], 0
        for field in fields:
            if len(field) == 2:
                parts.append(Part(name=field[0], text=field[1]))
                continue
            source.write(field[1])
            span = (at, at := at + len(field[1]))
            parts.append(Part(name=field[0], file_name=field[2], content_type="image/png", span=span))
        size = write_form(parts, source, BOUNDARY, target)
        found = read_form(target, BOUNDARY)
        target.seek(0)
        data = target.read()

    assert len(data) == size
    finder = FieldFinder(BOUNDARY, "no such field")
    finder.feed(data)
    finder.close()
    assert [(part.name, part.file_name, part.text) for part in found] == [
        (part.name, part.file_name, part.text) for part in parts
    ]
    kept = [data[slice(*part.span)] for part in found if part.file_name is not None]
    assert kept == [field[1] for field in fields if len(field) == 3]


@given(st.lists(pieces, min_size=1, max_size=30).map(b"".join))
def test_the_reader_agrees_with_who_let_the_form_in(data: bytes) -> None:
    finder = FieldFinder(BOUNDARY, "no such field")
    try:
        finder.feed(data)
        finder.close()
    except MalformedRequestError:
        return
    with tempfile.TemporaryFile() as file:
        file.write(data)
        with contextlib.suppress(MalformedRequestError):
            assert {part.name for part in read_form(file, BOUNDARY)} == finder.names
