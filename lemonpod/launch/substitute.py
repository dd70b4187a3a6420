"""Templates and token values become argument texts, in one pass and by the injection rules (RFC 4.2).

Only the template is ever read for tokens: braces in a value are text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from lemonpod.contract.tokens import Template, Token
from lemonpod.errors import TokenError

Lookup = Callable[[Token], str]

# Matched in full, so that "-1\n" is no number. ASCII digits only, as an engine's own parser has it.
_NEGATIVE_NUMBER: Final = re.compile(r"-(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def substitute(template: Template, lookup: Lookup) -> str:
    """The template's text with each token's value in its place."""
    text = "".join(part if isinstance(part, str) else _value(part, lookup) for part in template.parts)
    check_passable(text)
    return text


def bind(template: Template, lookup: Lookup, *, keep: Token) -> Template:
    """The template with all its tokens but `keep` resolved."""
    parts: list[str | Token] = []
    for part in template.parts:
        if part == keep:
            parts.append(part)
            continue
        text = part if isinstance(part, str) else _value(part, lookup)
        check_passable(text)
        if parts and isinstance(parts[-1], str):
            parts[-1] += text
        else:
            parts.append(text)
    return Template(tuple(parts))


def check_passable(text: str) -> None:
    """Raise TokenError for a text that no program can be given as an argument or a variable."""
    if "\0" in text:
        raise TokenError(f"{text!r} holds a NUL character")
    try:
        text.encode("utf-8", "surrogateescape")  # the form of a file name that is not UTF-8
    except UnicodeEncodeError as error:
        raise TokenError(f"{text!r} holds half of a surrogate pair") from error


def as_data(value: str, what: str) -> str:
    """The value, unless a program could take it for an option where data is meant."""
    if value.startswith("-") and not _NEGATIVE_NUMBER.fullmatch(value):
        raise TokenError(
            f"{what} resolved to a value starting with '-'",
            hint="only negative numbers may; an option for the engine goes into 'args'",
        )
    return value


def _value(token: Token, lookup: Lookup) -> str:
    return as_data(lookup(token), f"token '{Token(token.name, token.argument)}'")
