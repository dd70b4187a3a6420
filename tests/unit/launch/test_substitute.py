from __future__ import annotations

import pytest

from lemonpod.contract.tokens import Token, parse_template
from lemonpod.errors import TokenError
from lemonpod.launch.substitute import bind, substitute


def fill(text: str, **values: str) -> str:
    return substitute(parse_template(text), lambda token: values[token.argument or token.name])


def test_a_text_without_tokens_stays() -> None:
    assert fill("--flag") == "--flag"
    assert fill("") == ""
    assert fill('--json={"a":1}') == '--json={"a":1}'  # L29
    assert fill("a}b") == "a}b"


# L29: braces in a value are text, whatever they look like.
@pytest.mark.parametrize("value", ["{env:HOME}", "a{port}b", "{", "}{", "{custom:x}", "{{port}}", ""])
def test_a_value_is_never_read_for_tokens(value: str) -> None:
    assert fill("<{custom:x}|{port}>", x=value, port="8001") == f"<{value}|8001>"


@pytest.mark.parametrize("number", ["-1", "-0", "-12", "-1.5", "-1.", "-.5", "-1e5", "-1.5E-3", "-0.0"])
def test_a_whole_negative_number_may_begin_with_a_dash(number: str) -> None:
    assert fill("{custom:x}", x=number) == number


@pytest.mark.parametrize(
    "value",
    [
        "-",
        "--",
        "-x",
        "--flag",
        "-1\n",
        "-1x",
        "-1 -2",
        "-.",
        "-e5",
        "-1e",
        "-1e+",
        "--1",
        "-0x10",
        "-١",
        "-inf",
        "-nan",
        "-1,5",
        "-1_000",
    ],
)
@pytest.mark.parametrize("text", ["{custom:evil}", "x={custom:evil}", "{custom:evil}x", "1{custom:evil}"])
def test_any_other_value_with_a_dash_is_refused_wherever_it_stands(value: str, text: str) -> None:  # F01
    with pytest.raises(TokenError) as caught:
        fill(text, evil=value)
    assert caught.value.message == "token '{custom:evil}' resolved to a value starting with '-'"


def test_the_manifests_own_dashes_are_its_own() -> None:
    assert fill("-{custom:x}", x="1") == "-1"
    assert fill("--{custom:x}", x="port") == "--port"
    assert fill("{custom:x}-{custom:y}", x="a", y="b") == "a-b"


@pytest.mark.parametrize("value", ["a\0b", "\0", "\ud800"])
def test_what_no_program_can_be_given_is_refused(value: str) -> None:  # L17
    with pytest.raises(TokenError, match="holds"):
        fill("x={custom:x}", x=value)


def test_a_line_break_and_a_name_that_is_no_utf8_may_pass() -> None:
    assert fill("{custom:x}", x="l1\nl2=3") == "l1\nl2=3"
    assert fill("{custom:x}", x="caf\udce9") == "caf\udce9"


def test_bind_keeps_one_token_and_joins_the_rest() -> None:
    template = parse_template("a{port}b{pid}c{port}")
    bound = bind(template, lambda _: "1", keep=Token("pid"))
    assert bound.parts == ("a1b", Token("pid"), "c1")
    with pytest.raises(TokenError, match="starting with '-'"):
        bind(template, lambda _: "-x", keep=Token("pid"))
    with pytest.raises(TokenError, match="NUL"):
        bind(template, lambda _: "\0", keep=Token("pid"))
