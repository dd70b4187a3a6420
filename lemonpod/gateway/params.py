"""The settings that clients see and, some of them, change while the server runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import ConfigError, MalformedRequestError

Setter = Callable[[Any], None]


@dataclass(slots=True)
class Params:
    """The settings by Lemonade's names, as they are now."""

    values: dict[str, JsonValue] = field(default_factory=dict)
    setters: Mapping[str, Setter] = field(default_factory=dict)
    """What makes a new value work at once; raises ConfigError for one that cannot be."""

    def change(self, changes: Mapping[str, JsonValue]) -> None:
        """Set all or none until the server ends; raises MalformedRequestError naming the setting."""
        for name in changes:
            if name not in self.values:
                raise MalformedRequestError(f"there is no setting '{name}'")
            if name not in self.setters:
                raise MalformedRequestError(
                    f"'{name}' cannot change while the server runs", hint="set it in config.json"
                )
        for name, value in changes.items():
            try:
                self.setters[name](value)
            except ConfigError as error:
                raise MalformedRequestError(error.message) from error
            self.values[name] = value
