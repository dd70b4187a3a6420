"""Looking into a body without changing it (H21)."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.json_body import BIG, peek, peek_aside

ODD_BUT_VALID = [
    b'{"model":"m"}',
    b' \r\n\t{ "model" : "m" } \n',
    b'{"model":"m","seed":12345678901234567890123}',
    b'{"model":"m","seed":' + b"9" * 5000 + b"}",
    b'{"model":"m","temperature":0.1000000000000000055,"n":1e999,"z":-0}',
    b'{"x":"\\ud800","model":"m"}',
    b'{"nested":{"a":1,"a":2,"model":"other"},"model":"m"}',
    b'{"a":[{"model":"no"}],"mod\\u0065l":"m"}',
    '{"x":"日本語 \\u00e9 \U0001f600","model":"m"}'.encode(),
    b'{"":"empty key","model":"m"}',
]


@pytest.mark.parametrize("data", ODD_BUT_VALID)
def test_a_valid_body_keeps_every_byte(data: bytes) -> None:  # H21
    body = peek(data, ("model",))

    assert body.get("model") == "m"
    assert body.data == data


@pytest.mark.parametrize("data", ODD_BUT_VALID)
def test_only_the_models_span_is_replaced(data: bytes) -> None:  # H21
    changed = peek(data, ("model",)).with_text("model", "user.m").data

    head, _, tail = data.rpartition(b'"m"')
    assert changed == head + b'"user.m"' + tail
    long = data.rstrip()[:-1] + b',"pad":"' + b"x" * 3000 + b'"}'
    head, _, tail = long.rpartition(b'"m"')
    assert peek(long, ("model",)).with_text("model", "user.m").data == head + b'"user.m"' + tail


@pytest.mark.parametrize("pad", [0, 3000])
def test_a_number_that_is_too_long_to_be_read_is_no_name(pad: int) -> None:  # H21
    data = b'{"model":' + b"9" * 5000 + b',"pad":"' + b"x" * pad + b'"}'

    assert not isinstance(peek(data, ("model",)).get("model"), str)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "Request body is required but was empty"),
        (b" ", "expected an object"),
        (b"[]", "expected an object"),
        (b'"m"', "expected an object"),
        (b"null", "expected an object"),
        (b"\xef\xbb\xbf" + b'{"model":"m"}', "byte order mark"),
        (b'{"model":"a","model":"b"}', "'model' comes twice"),
        (b'{"a":1,"\\u0061":2}', "'a' comes twice"),
        (b'{"model":"m","temperature":NaN}', "NaN is not a JSON value"),
        (b'{"model":"m","x":[{"y":-Infinity}]}', "-Infinity is not a JSON value"),
        (b'{"model":"caf\xe9"}', "not UTF-8 at byte 13"),
        ('{"model":"m"}'.encode("utf-16"), "not UTF-8"),
        (b'{"model":"\xed\xa0\x80"}', "not UTF-8"),
        (b"[" * 100_000, "expected an object"),
        (b'{"x":' + b"[" * 100_000, "nested too deeply"),
        (b'{"x":' + b'{"a":' * 100_000, "nested too deeply"),
        (b'{"model":"m"', "Expected ',' or '}'"),
        (b'{"model":"m",}', "Expected a key"),
        (b'{"model" "m"}', "Expected ':'"),
        (b'{"model":}', "Expecting value"),
        (b"{model:1}", "Expected a key"),
        (b'{"model":"m"}{}', "Unexpected text after the object"),
        (b'{"model":"m"} x', "Unexpected text after the object"),
        (b'{"model":"a\nb"}', "Invalid control character"),
        (b'{"model":"\\x"}', "Invalid \\escape"),
        (b'{"a":01}', "Expected ',' or '}'"),
        (b"{'a':1}", "Expected a key"),
        (b"{/* c */}", "Expected a key"),
    ],
)
def test_anything_else_is_refused_with_its_reason(data: bytes, message: str) -> None:  # H21
    with pytest.raises(MalformedRequestError) as caught:
        peek(data, ("model",))

    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("pad", [3000, BIG])
@pytest.mark.parametrize("data", [b'{"a":1,"b":2,"a":1}', b'{"a":{"z":0,"b":22},"b":222,"a":{"y":0,"b":22}}'])
def test_in_a_longer_body_too_no_key_comes_twice(data: bytes, pad: int) -> None:
    padded = data[:-1] + b',"model":"m","pad":"' + b"x" * pad + b'"}'

    with pytest.raises(MalformedRequestError, match="'a' comes twice"):
        peek(padded, ("model",))


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "22", '{"b":1}', '"a"', '{"a":2,"b":1}']))
    ),
    st.sampled_from(["", " ", "\n"]),
    st.integers(0, 3000),
)
def test_however_long_a_body_is_the_same_is_told_of_it(
    members: list[tuple[str, str]], space: str, pad: int
) -> None:
    pairs = [f'{space}"{key}"{space}:{space}{value}' for key, value in members]
    short = "{" + ",".join([*pairs, '"pad":""']) + "}"
    long = "{" + ",".join([*pairs, f'"pad":"{"x" * (pad + 2048)}"']) + "}"
    told: list[object] = []
    for text in (short, long):
        try:
            told.append(peek(text.encode(), ("a", "b")).values)
        except MalformedRequestError as error:
            told.append(str(error))

    assert told[0] == told[1]


def test_an_absent_member_and_null_are_none() -> None:
    assert peek(b"{}", ("model",)).get("model") is None
    assert peek(b'{"model":null}', ("model",)).get("model") is None


def test_several_members_can_be_replaced() -> None:
    body = peek(b'{"b":"1","model":"m","c":"2"}', ("b", "model", "c"))

    changed = body.with_text("b", 'a "longer" one').with_text("c", "é").with_text("model", "x")

    assert json.loads(changed.data) == {"b": 'a "longer" one', "model": "x", "c": "é"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.text(), st.booleans(), st.integers(0, 3))
def test_whatever_else_is_in_it_the_model_is_found_and_replaced(
    rest: dict[str, object], model: str, ascii_only: bool, indent: int
) -> None:
    document = rest | {"model": "old"}
    data = json.dumps(document, ensure_ascii=ascii_only, indent=indent or None)
    data = data.encode("utf-8", "surrogatepass").decode("utf-8", "replace")

    body = peek(data.encode(), ("model",))

    assert body.data == data.encode()
    assert json.loads(body.with_text("model", model).data)["model"] == model


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_but_a_refusal(data: bytes) -> None:
    try:
        peek(data, ("model",))
    except MalformedRequestError:
        return
    assert isinstance(json.loads(data), dict)


@pytest.mark.parametrize("data", ODD_BUT_VALID)
def test_a_big_body_keeps_every_byte_too(data: bytes) -> None:
    padded = data.rstrip()[:-1] + b',"pad":"' + b"x" * BIG + b'"}'

    body = peek(padded, ("model",))

    assert (body.data, body.get("model")) == (padded, "m")


def test_a_big_bodys_lists_are_told_as_empty() -> None:
    body = peek(b'{"model":[1,{}],"pad":"' + b"x" * BIG + b'"}', ("model",))

    assert body.get("model") == []


async def test_a_big_body_holds_nobody_up() -> None:
    data = b'{"model":"m","x":[' + b'[1,[2]],{"a":{}},"b\\n",7,' * (1 << 17) + b"0]}"
    longest = 0.0

    async def others() -> None:
        nonlocal longest
        while True:
            begun = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - begun)

    waiting = asyncio.create_task(others())
    began = time.monotonic()
    body = await peek_aside(data, ("model",))
    took = time.monotonic() - began
    waiting.cancel()

    assert body.get("model") == "m"
    assert longest < took / 4


def test_deep_nesting_leaves_the_recursion_limit_alone() -> None:
    limit = sys.getrecursionlimit()
    with pytest.raises(MalformedRequestError):
        peek(b'{"x":' + b"[" * 100_000, ())
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{}", b'{"x": 1}'),
        (b" { } ", b' {"x": 1 } '),
        (b'{ "model" : "m" }', b'{"x": 1,  "model" : "m" }'),
    ],
)
def test_one_more_member(data: bytes, expected: bytes) -> None:
    body = peek(data, ("model",)).with_member("x", 1)

    assert body.data == expected
    assert json.loads(body.data)["x"] == 1
