"""Templates: what is a token, and what only looks like one."""

from __future__ import annotations

import pytest

from lemonpod.contract.tokens import Template, Token, parse_template


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("",)),
        ("plain", ("plain",)),
        ("{port}", (Token("port"),)),
        ("-p={port}:{port}", ("-p=", Token("port"), ":", Token("port"))),
        ("{checkpoint:main}", (Token("checkpoint", "main"),)),
        ("{custom:x:--1}", (Token("custom", "x", "-1"),)),
        # L29: defaults with colons, empty defaults, JSON that is no token, stray braces.
        ("{custom:x:-a:-b}", (Token("custom", "x", "a:-b"),)),
        ("{custom:x:-}", (Token("custom", "x", ""),)),
        ('--json={"a": 1}', ('--json={"a": 1}',)),
        ('{ "a": {"b": "{port}"}}', ('{ "a": {"b": "', Token("port"), '"}}')),
        ("a}b", ("a}b",)),
    ],
)
def test_a_template_is_read_once_from_left_to_right(text: str, parts: tuple[str | Token, ...]) -> None:
    template = parse_template(text)
    assert template == Template(parts)
    assert str(template) == text


def test_an_element_may_be_one_token_and_nothing_else() -> None:
    assert parse_template("{custom_args}").only_token == Token("custom_args")
    assert parse_template("x{custom_args}").only_token is None
    assert parse_template("x").only_token is None
