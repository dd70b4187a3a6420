"""What of a command line is nobody else's business: values of variables and flags whose names say so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

BLANK: Final = "…"

_NAME: Final = re.compile("KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL", re.IGNORECASE)
# `NAME=VALUE`, also behind `-e` or `--env=`. A name of a variable is one word.
_VARIABLE: Final = re.compile(r"((?:-e|--[a-z-]+=)?([A-Za-z_][A-Za-z0-9_]*)=).+", re.DOTALL)
# A flag's name ends with the word: `--max-tokens`, `--api-key-file` and `--authfile` tell nothing.
_FLAG: Final = re.compile(r"--?(?:[\w.-]*[_.-])?(?:api[_-]?key|token|secret|password|passwd)", re.IGNORECASE)
_SAID: Final = re.compile(
    r"(?i)(bearer\s+|(?:api[-_]?key|token|secret|password)[\"']?\s*[=:]\s*[\"']?)([^\s\"'&,;]+)"
)


def redacted(text: str) -> str:
    """The text with what looks like a credential blanked."""
    return _SAID.sub(rf"\1{BLANK}", text)


def is_secret(name: str) -> bool:
    """Whether a variable of that name may hold a credential."""
    return bool(_NAME.search(name))


def secrets_of(argv: Sequence[str]) -> list[str]:
    """The credentials in `argv`."""
    shown = without_secrets(argv)
    return [
        word.removeprefix(left.removesuffix(BLANK))
        for word, left in zip(argv, shown, strict=True)
        if word != left
    ]


def without_secrets(argv: Iterable[str]) -> list[str]:
    """`argv` to be shown to whoever may ask what runs, each credential in it as `…`."""
    shown: list[str] = []
    follows = False
    for word in argv:
        flag, given, _ = word.partition("=")
        variable = _VARIABLE.fullmatch(word)
        if follows:
            shown.append(BLANK)
        elif given and _FLAG.fullmatch(flag):
            shown.append(f"{flag}={BLANK}")
        elif variable and is_secret(variable[2]):
            shown.append(variable[1] + BLANK)
        else:
            shown.append(word)
        follows = not follows and not given and bool(_FLAG.fullmatch(word))
    return shown
