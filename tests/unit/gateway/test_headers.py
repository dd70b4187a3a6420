"""Which headers pass (H07, H09, H33)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from lemonpod.gateway.headers import is_encoded, is_json, media_type, to_client, to_engine


def proxied(*items: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(items))


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
def test_h09_what_does_not_reach_an_engine(name: str) -> None:
    headers = proxied(
        (name, "1"), (name.upper(), "2"), ("Connection", "close, X-Secret"), ("CONNECTION", "x-other")
    )

    assert name not in to_engine(headers)


def test_h01_engines_compress_only_for_clients_that_ask() -> None:
    assert to_engine(proxied())["Accept-Encoding"] == "identity"
    assert to_engine(proxied(("accept-encoding", "br;q=1, gzip"))).getall("Accept-Encoding") == [
        "br;q=1, gzip"
    ]


def test_everything_else_passes_and_stays_a_list() -> None:
    headers = proxied(("X-A", "1"), ("x-a", "2"), ("User-Agent", "me"), ("Content-Type", "application/json"))

    kept = to_engine(headers)

    assert kept.getall("X-A") == ["1", "2"]
    assert kept["User-Agent"] == "me"


def test_h09_what_does_not_come_back_from_an_engine() -> None:
    headers = proxied(
        ("Connection", "keep-alive, X-Hop"),
        ("X-Hop", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Server", "engine"),
        ("Date", "yesterday"),
        ("Set-Cookie", "sid=alice"),
        ("WWW-Authenticate", "Basic"),
        ("Access-Control-Allow-Origin", "*"),
        ("access-control-allow-credentials", "true"),
        ("Content-Length", "3"),
        ("Content-Encoding", "gzip"),
        ("X-Request-Id", "1"),
    )

    assert set(to_client(headers)) == {"Content-Length", "Content-Encoding", "X-Request-Id"}


def test_bytes_that_cannot_be_sent_again_are_left_out() -> None:
    headers = proxied(("X-Bad", "caf\udce9"), ("X-Control", "a\x01b"), ("X-Good", "café\tau lait"))

    assert set(to_engine(headers)) == {"X-Good", "Accept-Encoding"}


@pytest.mark.parametrize(
    ("value", "encoded"), [(None, False), ("identity", False), ("", False), ("gzip", True), ("BR", True)]
)
def test_a_compressed_body_is_recognised(value: str | None, encoded: bool) -> None:
    assert is_encoded({} if value is None else {"Content-Encoding": value}) is encoded


@pytest.mark.parametrize(
    ("value", "json"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/problem+json", True),
        ("text/plain", False),
        ("application/x-ndjson", False),
        ("", False),
    ],
)
def test_json_is_recognised(value: str, json: bool) -> None:
    assert is_json({"Content-Type": value}) is json
    assert media_type({"Content-Type": value}) == value.partition(";")[0].lower()


@given(
    st.lists(st.tuples(st.sampled_from(["A", "a", "B", "Connection", "Cookie"]), st.text("ab, ", max_size=6)))
)
def test_nothing_named_by_connection_ever_passes(items: list[tuple[str, str]]) -> None:
    kept = to_engine(proxied(*items))
    named = {t.strip().lower() for n, v in items if n == "Connection" for t in v.split(",")}

    assert not {name.lower() for name in kept} & (named | {"connection", "cookie"})
