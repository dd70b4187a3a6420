"""A value is stepped over exactly where the decoder would read it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lemonpod.gateway.json_skip import MAX_DEPTH, skip_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)
PIECES = ["[", "]", "{", "}", ",", ":", " ", "\n", "1", "-0", "01", "1.5e+3", ".5", "1.", "-", "null", "tru"]
PIECES += ['"a"', '"b\\n"', '"\\ud800"', '"\\x"', '"\t"', '"', "NaN", '"a":', '"k" : ', "[1,2],", '{"a":1},']


def refuse(name: str) -> Any:
    raise ValueError(name)


DECODER = json.JSONDecoder(parse_constant=refuse)


def outcome(text: str, *, skip: bool) -> int | None:
    try:
        return skip_value(text, 0, DECODER) if skip else DECODER.raw_decode(text, 0)[1]
    except ValueError:
        return None


@given(VALUES, st.integers(0, 2), st.booleans(), st.sampled_from(["", " ", ",", "]", "}", "x", "1"]))
def test_a_value_ends_where_it_ends(value: Any, indent: int, ascii_only: bool, rest: str) -> None:
    text = json.dumps(value, indent=indent or None, ensure_ascii=ascii_only)

    assert skip_value(text + rest, 0, DECODER) == outcome(text + rest, skip=False)


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("[1,]")
@example('{"a":1,}')
@example("[[1,2],]")
@example("[1 2]")
@example("[1,,2]")
@example('[{"a":1,"b"},1]')
@example("[")
@example("")
def test_what_is_no_value_is_refused_as_well(text: str) -> None:
    assert outcome(text, skip=True) == outcome(text, skip=False)


@given(VALUES, st.integers(0, 200), st.integers(0, 200))
def test_a_damaged_value_is_refused_as_well(value: Any, start: int, length: int) -> None:
    text = json.dumps(value)
    damaged = text[:start] + text[start + length :]

    assert outcome(damaged, skip=True) == outcome(damaged, skip=False)


@pytest.mark.parametrize("count", [99, 100, 101, 499, 500, 501, 502, 5000])
@pytest.mark.parametrize("item", ["1", '"a"', "[1]", '{"a":1}', "[[1]]", '"\\n"'])
def test_long_lists_pass(item: str, count: int) -> None:
    flat = f"[{','.join([item] * count)}]"

    assert skip_value(flat, 0, DECODER) == len(flat)
    assert skip_value(f"[{flat},{flat}]", 0, DECODER) == 2 * len(flat) + 3


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":', "[1,["])
def test_deep_nesting_is_refused(opening: str) -> None:
    with pytest.raises(RecursionError):
        skip_value(opening * (MAX_DEPTH + 1), 0, DECODER)
