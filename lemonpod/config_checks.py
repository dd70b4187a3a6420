"""What a setting must be beyond its type: each check returns the value, or raises ConfigError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from lemonpod.config_keys import THRESHOLD
from lemonpod.engine.slots import UNLIMITED
from lemonpod.errors import ConfigError

LOG_LEVELS: Final = ("trace", "debug", "info", "warning", "error")


def limit(name: str, value: int) -> int:
    if value < 1 and value != UNLIMITED:
        raise ConfigError(f"{name} must be above zero, or {UNLIMITED} for any number, not {value}")
    return value


def share(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} must be between 0 and 1, not {value}", hint="a share: 0.9 is for 90 %")
    return value


def idle_time(name: str, value: float) -> float:
    if value < 0 and value != -1:  # Lemonade's "not set"
        raise ConfigError(f"{name} must be a number of seconds, not {value}", hint="0 stands for never")
    return value


def weight(name: str, value: float) -> float:
    if value <= 0 and value != -1:
        raise ConfigError(f"{name} must be above zero, not {value}")
    return value


def port(name: str, value: int) -> int:
    if not 0 <= value <= 65535:
        raise ConfigError(f"{name} must be between 0 and 65535, not {value}")
    return value


def level(name: str, text: str) -> str:
    level = text.lower()
    if level not in LOG_LEVELS:
        raise ConfigError(f"{name} must be one of {', '.join(LOG_LEVELS)}, not {text!r}")
    return level


def host(name: str, text: str) -> str:
    """The host, unless no machine can be called that; whether one is, listening will show."""
    if not text:  # which the system takes for every address of this machine
        raise ConfigError(f"{name} is empty", hint="localhost, or 0.0.0.0 for whoever reaches this machine")
    labels = text.rstrip(".").split(".")
    if not text.isascii() or not all(0 < len(label) < 64 for label in labels):
        try:
            text.encode("idna")
        except UnicodeError as error:
            raise ConfigError(f"{name} {text!r} is no name or address of a machine") from error
    return text


CHECKS: Final[Mapping[str, Callable[[str, Any], object]]] = MappingProxyType(
    {
        THRESHOLD: share,
        "downsize_idle_timeout": idle_time,
        "evict_idle_timeout": idle_time,
        "evict_weight_factor": weight,
        "host": host,
        "log_level": level,
        "max_loaded_models": limit,
        "port": port,
    }
)
"""What can be wrong with a setting though it is of the right type."""
