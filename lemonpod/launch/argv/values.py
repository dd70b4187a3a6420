"""What the values of flags are written like: sizes, durations, numbers, lists in one word.

A reader of a value raises Refused where podman or docker would refuse it, and OnlyByCli where they take it
but their API cannot be told; neither knows of flags or positions, which `run` adds.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from posixpath import normpath
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from lemonpod.contract.location import shown
from lemonpod.launch.container import Runtime

MAX_INT: Final = 2**63 - 1
"""What both programs keep a number in."""
SECOND: Final = 10**9
"""In nanoseconds."""

_SIZE: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([kmgtp]?)(i?)b?", re.IGNORECASE)
_DECIMAL: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_DURATION_PART: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})(ns|us|µs|μs|ms|s|m|h)")
_NANOSECONDS: Final = MappingProxyType(
    {
        "ns": 1,
        "us": 10**3,
        "µs": 10**3,
        "μs": 10**3,
        "ms": 10**6,
        "s": 10**9,
        "m": 60 * 10**9,
        "h": 3600 * 10**9,
    }
)
TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class Refused(Exception):
    """The program would not take the value; the text follows the name of the flag."""


class OnlyByCli(Exception):
    """The program takes the value, its API cannot be told; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who gives the command line, as far as it refers to them."""

    cwd: str
    """Absolute; relative paths start here."""
    env: Mapping[str, str]
    """For the variables that are named without a value."""
    read: Callable[[str], str]
    """The text of a file by its absolute path; raises OSError."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the reading of a value depends on besides the value."""

    runtime: Runtime
    caller: Caller

    def absolute(self, path: str) -> str:
        """`path` from where the caller stands."""
        joined = normpath(PurePosixPath(self.caller.cwd) / path)
        return f"/{joined.lstrip('/')}"

    def text_of(self, path: str) -> str:
        """The text of a file that the command line names."""
        try:
            return self.caller.read(self.absolute(path))
        except UnicodeDecodeError:
            raise Refused(f"names a file that is no text: '{shown(path)}'") from None
        except (OSError, ValueError) as error:  # ValueError for a NUL in the path
            why = getattr(error, "strerror", None) or "it cannot be opened"
            raise Refused(f"names a file that cannot be read: '{shown(path)}', {why}") from None


Reader: TypeAlias = Callable[[str, Context], Any]


def uncut(read: Reader) -> Reader:
    """Like `each`, of what podman cuts at commas before its version 5 and does not from then on."""

    def read_one(text: str, context: Context) -> tuple[Any, ...]:
        if "," in text and context.runtime is Runtime.PODMAN:
            raise OnlyByCli("podman 4 cuts the value at its commas, podman 5 does not")
        return (read(text, context),)

    return read_one


def plain(read: Callable[[str], Any]) -> Reader:
    """A reader of values that mean the same to everybody."""
    return lambda text, _: read(text)


def each(read: Reader) -> Reader:
    """A reader of one of many values, which are put after each other."""
    return lambda text, context: (read(text, context),)


def commas(read: Reader) -> Reader:
    """Like `each`; podman takes several in one word, docker one."""

    def read_all(text: str, context: Context) -> tuple[Any, ...]:
        words = (text,) if context.runtime is Runtime.DOCKER else fields(text)
        return tuple(read(word, context) for word in words)

    return read_all


def verbatim(value: str) -> str:
    return value


def some(value: str) -> str | None:
    """A word; an empty one is as good as none."""
    return value or None


def switch(value: str) -> bool:
    if value not in TRUE | FALSE:
        raise Refused(f"is true or false, not '{shown(value)}'")
    return value in TRUE


def one_of(*words: str) -> Callable[[str], str]:
    """A reader of one of `words`."""

    def read(value: str) -> str:
        if value not in words:
            raise Refused(f"is one of {', '.join(filter(None, words))}, not '{shown(value)}'")
        return value

    return read


def whole(lowest: int = -MAX_INT, highest: int = MAX_INT) -> Callable[[str], int]:
    """A reader of whole numbers in a range."""

    def read(value: str) -> int:
        if not _WHOLE.fullmatch(value) or not lowest <= int(value) <= highest:
            bounds = f" from {lowest} on" if highest == MAX_INT and lowest > -MAX_INT else ""
            raise Refused(f"takes a whole number{bounds}, not '{shown(value)}'")
        return int(value)

    return read


def size(value: str, context: Context) -> int:
    """Bytes: `64m`, `10.24g`; a fraction of a byte is dropped, as go-units does."""
    match = _SIZE.fullmatch(value)
    if not match or (match[3] and (context.runtime is Runtime.DOCKER or not match[2])):
        raise Refused(f"takes a size as 512m or 16g, not '{shown(value)}'")
    exponent = " kmgtp".index(match[2].lower() or " ")
    return _bounded(int(Decimal(match[1]) * 1024**exponent))


def size_or_unlimited(value: str, context: Context) -> int:
    return -1 if value == "-1" else size(value, context)


def decimal_size(value: str) -> int:
    """Bytes in powers of 1000, as podman counts the size of a log."""
    match = _SIZE.fullmatch(value)
    if not match or match[3]:
        raise Refused(f"takes a size as 10m, not '{shown(value)}'")
    return _bounded(int(Decimal(match[1]) * 1000 ** " kmgtp".index(match[2].lower() or " ")))


def nano_cpus(value: str, context: Context) -> int:
    """Processors in billionths: `1.5`."""
    if "/" in value and context.runtime is Runtime.DOCKER:
        raise OnlyByCli("a part of a processor is only read with a point")
    if not _DECIMAL.fullmatch(value):
        raise Refused(f"takes a number of processors as 1.5, not '{shown(value)}'")
    return _bounded(int(Decimal(value) * 10**9))


def duration(value: str) -> int:
    """Nanoseconds of a duration as Go writes it: `1m30s`."""
    if value == "0":
        return 0
    total, position = Decimal(0), 0
    while match := _DURATION_PART.match(value, position):
        total += Decimal(match[1]) * _NANOSECONDS[match[2]]
        position = match.end()
    if not value or position != len(value):
        raise Refused(f"takes a duration as 30s or 1m30s, not '{shown(value)}'")
    return _bounded(int(total))


def fields(value: str) -> tuple[str, ...]:
    """The fields of one record of comma-separated values; a quote within a field is refused, as by Go."""
    if not value:
        return ()
    if (
        "\n" in value
        or "\r" in value
        or any('"' in field and not field.startswith('"') for field in _raw_fields(value))
    ):
        raise Refused(f"takes words between commas, a quote only around a whole one, not '{shown(value)}'")
    try:
        return tuple(next(csv.reader([value], strict=True)))
    except csv.Error:
        raise Refused(f"takes words between commas, not '{shown(value)}'") from None


def pair(value: str) -> tuple[str, str]:
    """`KEY=VALUE`, where the key alone has an empty value."""
    key, _, rest = value.partition("=")
    if not key:
        raise Refused(f"takes NAME=VALUE, not '{shown(value)}'")
    return key, rest


def strict_pair(value: str) -> tuple[str, str]:
    if "=" not in value:
        raise Refused(f"takes NAME=VALUE, not '{shown(value)}'")
    return pair(value)


def require(word: str, known: Collection[str], what: str) -> None:
    """Refuse a word that is none of those known."""
    if word not in known:
        raise Refused(f"has '{shown(word)}' for {what}; known are {', '.join(sorted(known))}")


def _raw_fields(value: str) -> list[str]:
    """Cut at the commas that stand outside of quotes."""
    quoted, cut = False, [""]
    for char in value:
        quoted ^= char == '"'
        if char == "," and not quoted:
            cut.append("")
        else:
            cut[-1] += char
    return cut


def _bounded(number: int) -> int:
    if number > MAX_INT:
        raise Refused("takes a smaller number")
    return number
