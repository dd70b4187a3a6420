"""Numbers as the kernel writes them. What is none is unknown."""

from __future__ import annotations

import re
from typing import Final

_DECIMAL: Final = re.compile(r"-?[0-9]{1,20}")
_HEX: Final = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,16})")


def decimal(text: str | None) -> int | None:
    """The number of a file that holds one, as `17163091968`."""
    text = "" if text is None else text.strip()
    return int(text) if _DECIMAL.fullmatch(text) else None


def size(text: str | None) -> int | None:
    """A number of bytes; none is as much as unknown, for no memory has that size."""
    number = decimal(text)
    return number if number is not None and number > 0 else None


def hexadecimal(text: str | None) -> int | None:
    """The number of a file that holds one, as `0x1002`."""
    match = _HEX.fullmatch("" if text is None else text.strip())
    return int(match[1], 16) if match else None


def properties(text: str | None) -> dict[str, int]:
    """The lines `name number` of a file of kfd; a line without a number says nothing."""
    found: dict[str, int] = {}
    for line in ("" if text is None else text).splitlines():
        name, _, value = line.strip().partition(" ")
        number = decimal(value)
        if number is not None:
            found[name] = number
    return found
