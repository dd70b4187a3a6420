"""`{token}` templates: parsed once at discovery, resolved once at spawn (RFC section 4.2).

A template is read left to right, one time. There is no escape for `{` and a stray `}` is literal.
The one literal `{` is a JSON object's: a brace followed by a double quote cannot open a token name,
so `--json={"a": 1}` stays as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lemonpod.errors import TokenError

FIXED_TOKENS: Final = frozenset(  # grouped as in the RFC, which a list of strings would hide
    """
    port host pid log_level recipe model_name
    resolved_path model_relative_path model_dir exe_dir hf_cache cache_dir
    rocm_arch cuda_arch arch_alias target_device
    hip_visible_devices cuda_visible_devices rocr_visible_devices ggml_vk_visible_devices
    ze_affinity_mask
    ctx_size batch_size ubatch_size threads cache_type_k cache_type_v
    custom_args
    """.split()  # noqa: SIM905
)
CHECKPOINT_TOKENS: Final = frozenset({"checkpoint", "checkpoint_relative"})
DEFAULTED_TOKENS: Final = frozenset({"custom", "env"})

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_JSON_OBJECT: Final = re.compile(r'\{\s*"')
_DEFAULT_MARK: Final = ":-"


@dataclass(frozen=True, slots=True)
class Token:
    """`{name}`, `{name:argument}` or `{name:argument:-default}`."""

    name: str
    argument: str | None = None
    default: str | None = None

    def __str__(self) -> str:
        argument = "" if self.argument is None else f":{self.argument}"
        default = "" if self.default is None else f"{_DEFAULT_MARK}{self.default}"
        return f"{{{self.name}{argument}{default}}}"


@dataclass(frozen=True, slots=True)
class Template:
    """A text with tokens in it; `parts` holds literal text and tokens in order."""

    parts: tuple[str | Token, ...]

    def __str__(self) -> str:
        return "".join(str(part) for part in self.parts)

    @property
    def tokens(self) -> tuple[Token, ...]:
        return tuple(part for part in self.parts if isinstance(part, Token))

    @property
    def only_token(self) -> Token | None:
        """The token, where the whole element is that one token."""
        match self.parts:
            case (Token() as token,):
                return token
        return None


def parse_template(text: str) -> Template:
    """Parse `text`; raises TokenError, which names the token and quotes the text."""
    parts: list[str | Token] = []
    literal: list[str] = []
    position = 0
    while position < len(text):
        if text[position] != "{" or _JSON_OBJECT.match(text, position):
            literal.append(text[position])
            position += 1
            continue
        end = text.find("}", position)
        if end < 0:
            raise TokenError(f'unterminated token in "{text}"')
        body = text[position + 1 : end]
        if "{" in body:
            raise TokenError(f'nested token in "{text}"')
        if literal:
            parts.append("".join(literal))
            literal.clear()
        parts.append(_parse_token(body, text))
        position = end + 1
    if literal or not parts:
        parts.append("".join(literal))
    return Template(tuple(parts))


def _parse_token(body: str, text: str) -> Token:
    if not body:
        raise TokenError(f'empty token in "{text}"')
    if body in FIXED_TOKENS:
        return Token(body)
    name, colon, rest = body.partition(":")
    if not colon or name not in CHECKPOINT_TOKENS | DEFAULTED_TOKENS:
        raise TokenError(f"unknown token '{{{body}}}' in \"{text}\"")
    argument, mark, default = rest.partition(_DEFAULT_MARK)
    if not argument:
        raise TokenError(f"token is missing its name: '{{{body}}}' in \"{text}\"")
    if not _NAME.fullmatch(argument):
        raise TokenError(f"invalid token name '{argument}' in \"{text}\"")
    if mark and name in CHECKPOINT_TOKENS:
        raise TokenError(f"token '{argument}' does not take a default in \"{text}\"")
    return Token(name, argument, default if mark else None)
