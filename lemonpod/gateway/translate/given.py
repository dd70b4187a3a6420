"""Reads what a client gave, member by member; what is of the wrong kind is told with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lemonpod.errors import MalformedRequestError


class Given:
    """One object. An explicit null counts as absent."""

    def __init__(self, members: Mapping[str, Any], place: str = "") -> None:
        self.members = members
        self.place = place

    def at(self, name: str) -> str:
        """Where a member stands in the request."""
        return f"{self.place}.{name}" if self.place else name

    def get(self, name: str) -> Any:
        """The member as it is; None where it is absent."""
        return self.members.get(name)

    def text(self, name: str) -> str | None:
        value: str | None = self._of_kind(name, str, "a string")
        return value

    def flag(self, name: str) -> bool | None:
        value: bool | None = self._of_kind(name, bool, "true or false")
        return value

    def count(self, name: str) -> int | None:
        value: int | None = self._of_kind(name, int, "a whole number")
        return value

    def object(self, name: str) -> Given | None:
        members = self._of_kind(name, dict, "an object")
        return None if members is None else Given(members, self.at(name))

    def need_text(self, name: str) -> str:
        """A string that must be there, and not be empty."""
        value = self.text(name)
        if not value:
            raise MalformedRequestError(f"'{self.at(name)}' is required")
        return value

    def strings(self, name: str) -> list[str]:
        items = self._of_kind(name, list, "a list") or []
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise MalformedRequestError(f"'{self.at(name)}[{index}]' must be a string")
        return items

    def objects(self, name: str) -> Iterator[Given]:
        for index, item in enumerate(self._of_kind(name, list, "a list") or []):
            place = f"{self.at(name)}[{index}]"
            if not isinstance(item, dict):
                raise MalformedRequestError(f"'{place}' must be an object")
            yield Given(item, place)

    def _of_kind(self, name: str, kind: type, called: str) -> Any:
        value = self.members.get(name)
        if value is not None and (
            not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
        ):
            raise MalformedRequestError(f"'{self.at(name)}' must be {called}")
        return value
