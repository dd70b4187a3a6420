"""Which headers pass (H07, H09, H33)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemonpod.gateway.headers import as_lines, is_encoded, is_json, known, media_type
from lemonpod.gateway.headers import to_client as client_fields
from lemonpod.gateway.headers import to_engine as engine_fields

Items = list[tuple[str, str]]


def to_engine(*items: tuple[str, str]) -> Items:
    fields = [(name.lower().encode(), name.encode(), value.encode()) for name, value in items]
    return [(name.decode(), value.decode()) for _, name, value in engine_fields(fields, known(fields))]


def to_client(*items: tuple[str, bytes]) -> set[str]:
    return {name.decode() for _, name, _ in client_fields([(n.encode(), v) for n, v in items])}


def named(items: Items, name: str) -> list[str]:
    return [value for key, value in items if key.lower() == name.lower()]


@pytest.mark.parametrize(
    "name",
    [
        "Connection",
        "Keep-Alive",
        "Proxy-Authenticate",
        "Proxy-Authorization",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Authorization",
        "Cookie",
        "X-Api-Key",
        "api-key",
        "Expect",  # H07
        "Host",
        "Content-Length",
        "Content-Encoding",
        "x-secret",
        "X-OTHER",
    ],
)
def test_what_does_not_reach_an_engine(name: str) -> None:  # H09
    kept = to_engine(
        (name, "1"), (name.upper(), "2"), ("Connection", "close, X-Secret"), ("CONNECTION", "x-other")
    )

    assert not named(kept, name)


def test_engines_compress_only_for_clients_that_ask() -> None:  # H01
    assert named(to_engine(), "Accept-Encoding") == ["identity"]
    assert named(to_engine(("accept-encoding", "br;q=1, gzip")), "Accept-Encoding") == ["br;q=1, gzip"]


def test_everything_else_passes_and_stays_a_list() -> None:
    items = [("X-A", "1"), ("x-a", "2"), ("User-Agent", "me"), ("Content-Type", "application/json")]

    assert to_engine(*items) == [*items, ("Accept-Encoding", "identity")]


def test_what_does_not_come_back_from_an_engine() -> None:  # H09
    kept = to_client(
        ("Connection", b"keep-alive, X-Hop"),
        ("X-Hop", b"1"),
        ("Transfer-Encoding", b"chunked"),
        ("Server", b"engine"),
        ("Date", b"yesterday"),
        ("Set-Cookie", b"sid=alice"),
        ("WWW-Authenticate", b"Basic"),
        ("Access-Control-Allow-Origin", b"*"),
        ("access-control-allow-credentials", b"true"),
        ("Content-Length", b"3"),
        ("Content-Encoding", b"gzip"),
        ("X-Request-Id", b"1"),
    )

    assert kept == {"Content-Length", "Content-Encoding", "X-Request-Id"}


def test_bytes_that_cannot_be_sent_again_are_left_out() -> None:
    assert to_client(("X-Control", b"a\x01b"), ("X-Fold", b"a\r\n b"), ("X-Good", b"caf\xe9\tau lait")) == {
        "X-Good"
    }


def test_fields_become_lines() -> None:
    fields = [(b"x-a", b"X-A", b"1"), (b"x-b", b"X-B", b""), (b"x-a", b"x-a", b"2")]

    assert as_lines(fields, without={b"x-b"}) == b"X-A: 1\r\nx-a: 2\r\n"


@pytest.mark.parametrize(
    ("value", "encoded"), [(None, False), (b"identity", False), (b"", False), (b"gzip", True), (b"BR", True)]
)
def test_a_compressed_body_is_recognised(value: bytes | None, encoded: bool) -> None:
    assert is_encoded({} if value is None else {b"content-encoding": value}) is encoded


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (b"application/json", True),
        (b"Application/JSON; charset=utf-8", True),
        (b"application/problem+json", True),
        (b"text/plain", False),
        (b"application/x-ndjson", False),
        (b"", False),
    ],
)
def test_json_is_recognised(value: bytes, json: bool) -> None:
    assert is_json(value) is json
    assert media_type(value) == value.partition(b";")[0].lower()


@given(
    st.lists(st.tuples(st.sampled_from(["A", "a", "B", "Connection", "Cookie"]), st.text("ab, ", max_size=6)))
)
def test_nothing_named_by_connection_ever_passes(items: list[tuple[str, str]]) -> None:
    kept = to_engine(*items)
    listed = {t.strip().lower() for n, v in items if n == "Connection" for t in v.split(",")}

    assert not {name.lower() for name, _ in kept} & (listed | {"connection", "cookie"})
