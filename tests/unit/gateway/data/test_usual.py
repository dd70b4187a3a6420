"""What is remembered of heads, and what is not."""

from __future__ import annotations

import pytest

from lemonpod.gateway.data.usual import asked, told

LONG = b"x" * 5000


def head(*fields: tuple[bytes, bytes]) -> list[tuple[bytes, bytes, bytes]]:
    return [(name.lower(), name, value) for name, value in (*fields, (b"Content-Length", b"2"))]


def test_the_usual_is_worked_out_once() -> None:
    first, length = asked(head((b"Host", b"a")))

    assert length == b"2"
    assert asked(head((b"Host", b"a")))[0] is first
    assert asked(head((b"Host", b"b")))[0] is not first


@pytest.mark.parametrize("field", [(b"X", LONG), (LONG, b"x")])
def test_of_a_long_head_nothing_is_kept(field: tuple[bytes, bytes]) -> None:
    fields = head((b"Host", b"a"), field)

    assert asked(fields)[0] is not asked(fields)[0]
    assert told([field])[0] is not told([field])[0]
