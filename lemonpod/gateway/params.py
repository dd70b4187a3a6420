"""The settings that clients see and, some of them, change while the server runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from lemonpod.contract.vocabulary import JsonValue


class Kept(NamedTuple):
    """Settings that were written to a file; `message` says which of them do not work yet."""

    updated: Mapping[str, JsonValue]
    message: str | None


class Params(Protocol):
    """The settings by Lemonade's names. A mistake is a MalformedRequestError, and changes nothing."""

    def values(self) -> Mapping[str, JsonValue]:
        """As they are now."""

    def defaults(self) -> Mapping[str, JsonValue]:
        """As they would be if nobody had set any."""

    def change(self, changes: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Set all or none until the server ends; returns what was set."""

    async def keep(self, changes: Mapping[str, JsonValue]) -> Kept:
        """Set them for good. Raises ConfigError where they cannot be written."""
