"""The server's settings: defaults < defaults files < config.json < environment < command line.

`config.json` is Lemonade's: its global keys are accepted as they are, and what lemonpod adds stands in one
object of its own, `"lemonpod": {"stop_grace": 5, …}`. A key that nobody knows is an error, not a shrug.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import os
import pwd
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, get_type_hints

from lemonpod import config_checks
from lemonpod.config_keys import LAUNCH_OPTIONS, THRESHOLD, UNUSED_KEYS, USED_KEYS
from lemonpod.contract.vocabulary import JsonValue
from lemonpod.engine.settings import MEMORY_THRESHOLD, EngineSettings
from lemonpod.errors import ConfigError
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.launch.request import ContainerPolicy
from lemonpod.models.json_file import parse_object, read_bytes

DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 13305
DEFAULT_MAX_LOADED: Final = 1
SYSTEM_DEFAULTS: Final = Path("/usr/share/lemonade/defaults.json")

_KINDS: Final[Mapping[Any, str]] = MappingProxyType(
    {bool: "true or false", int: "an integer", float: "a number"}
)
# With zero these would ask without a pause, or give nobody the time to answer.
_ABOVE_ZERO: Final = frozenset(
    {
        "body_timeout",
        "connect_timeout",
        "max_queue",
        "pull_timeout",
        "stop_command_timeout",
        "swap_wait",
        "watchdog_interval",
        "watchdog_max_failures",
        "watchdog_probe_timeout",
        "write_timeout",
    }
)
_WATCHDOG_VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "LEMONADE_BACKEND_WATCHDOG": "watchdog",
        "LEMONADE_BACKEND_WATCHDOG_GRACE_SECONDS": "watchdog_grace",
        "LEMONADE_BACKEND_WATCHDOG_POLL_SECONDS": "watchdog_interval",
        "LEMONADE_BACKEND_WATCHDOG_PROBE_TIMEOUT_SECONDS": "watchdog_probe_timeout",
        "LEMONADE_BACKEND_WATCHDOG_MAX_FAILURES": "watchdog_max_failures",
    }
)


Layer: TypeAlias = tuple[object, Mapping[str, Any]]
"""Where settings stand, as errors call it, and the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where a server keeps what it knows."""

    cache: Path
    config: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that an operator can set, resolved."""

    folders: Folders
    host: str
    port: int
    log_level: str
    models_dir: str
    extra_models_dir: Path | None
    offline: bool
    """Nothing is fetched from the hub."""
    max_loaded_models: int
    """Of each kind, as chat or embeddings; -1 for any number."""
    memory_threshold: float
    """How full memory is when idle models with `auto_evict` begin to make room, from 0 to 1."""
    launch_options: Mapping[str, JsonValue]
    """Option values for every recipe, below each model's own, as `ctx_size`."""
    recipe_options: Mapping[str, Mapping[str, JsonValue]]
    """The sections of config.json that are named after a recipe: option values for that recipe."""
    unused: Mapping[str, JsonValue]
    """Lemonade's settings that change nothing here."""
    engine: EngineSettings
    gateway: GatewaySettings
    containers: ContainerPolicy


def find_folders(
    environ: Mapping[str, str], *, cache: Path | None = None, config: Path | None = None
) -> Folders:
    """The cache and config folders: an argument, else the environment, else XDG's places.

    A cache folder given without a config folder holds both, as with Lemonade.
    """
    if cache is not None and config is None:
        config = cache
    return Folders(
        cache=(
            cache
            or _first(environ, "LEMONADE_CACHE_DIR", "CACHE_DIRECTORY")
            or _xdg(environ, "XDG_CACHE_HOME", ".cache") / "lemonade"
        ).absolute(),
        config=(
            config
            or _first(environ, "STATE_DIRECTORY")
            or _xdg(environ, "XDG_CONFIG_HOME", ".config") / "lemonade"
        ).absolute(),
    )


def load_settings(
    environ: Mapping[str, str],
    folders: Folders,
    *,
    host: str | None = None,
    port: int | None = None,
    log_level: str | None = None,
) -> Settings:
    """Read every layer; raises ConfigError naming the file and the key."""
    layers = read_layers(environ, folders)
    return settle(layers, environ, folders, host=host, port=port, log_level=log_level)


def read_layers(environ: Mapping[str, str], folders: Folders) -> list[Layer]:
    """What the files say, config.json last; raises ConfigError for one that cannot be read."""
    paths = [SYSTEM_DEFAULTS, config_file(folders)]
    if extra := environ.get("LEMONADE_DEFAULTS_PATH"):
        paths.insert(1, Path(extra))
    return [(path, _read(path)) for path in paths]


def config_file(folders: Folders) -> Path:
    """The file that is the operator's own."""
    return folders.config / "config.json"


def settle(
    layers: Iterable[Layer],
    environ: Mapping[str, str],
    folders: Folders,
    *,
    host: str | None = None,
    port: int | None = None,
    log_level: str | None = None,
) -> Settings:
    """What the layers come to, of which later ones win; raises ConfigError naming place and key."""
    engine, gateway, containers = EngineSettings(), GatewaySettings(), ContainerPolicy()
    options: dict[str, Any] = {}
    sections: dict[str, Mapping[str, JsonValue]] = {}
    for where, document in layers:
        _check_keys(document, where)
        ours = document.get("lemonpod", {})
        for name, value in document.items():
            if isinstance(value, dict) and name != "lemonpod":
                sections[name] = {**sections.get(name, {}), **value}
        options |= document
        engine = _override(engine, ours, where)
        _check_ports(engine, where)
        gateway = _override(gateway, ours, where)
        containers = _override(containers, ours, where)
        _refuse_unknown(ours, _OURS, f"{where}: lemonpod")
    engine = _override(engine, _watchdog(environ), "environment")
    origins = environ.get("LEMONADE_ALLOWED_ORIGINS", "")
    gateway = replace(
        gateway,
        api_key=environ.get("LEMONADE_API_KEY") or None,
        admin_api_key=environ.get("LEMONADE_ADMIN_API_KEY") or None,
        allowed_origins=tuple(filter(None, map(str.strip, origins.split(",")))),
    )
    return Settings(
        folders=folders,
        host=config_checks.host("host", host or options.get("host", DEFAULT_HOST)),
        port=config_checks.port("port", options.get("port", DEFAULT_PORT) if port is None else port),
        log_level=config_checks.level("log_level", log_level or options.get("log_level", "info")),
        models_dir=options.get("models_dir", "auto"),
        extra_models_dir=_extra_models(options.get("extra_models_dir", ""), environ, folders),
        offline=options.get("offline", False),
        max_loaded_models=options.get("max_loaded_models", DEFAULT_MAX_LOADED),
        memory_threshold=options.get(THRESHOLD, MEMORY_THRESHOLD),
        launch_options={name: options[name] for name in LAUNCH_OPTIONS if name in options},
        recipe_options=sections,
        unused={name: options[name] for name in options.keys() & UNUSED_KEYS - sections.keys()},
        engine=engine,
        gateway=gateway,
        containers=containers,
    )


def _extra_models(text: str, environ: Mapping[str, str], folders: Folders) -> Path | None:
    """The folder; a relative one is meant from the config folder, where it is written."""
    if not text:
        return None
    home = home_folder(environ)
    if home is not None and (text == "~" or text.startswith("~/")):
        text = home + text[1:]
    return folders.config / text


def _check_ports(engine: EngineSettings, where: object) -> None:
    if not 1 <= engine.first_port <= engine.last_port <= 65535:
        raise ConfigError(
            f"{where}: lemonpod.first_port: {engine.first_port} to {engine.last_port} is no range of ports",
            hint="both lie between 1 and 65535, and the first is not above the last",
        )


def _first(environ: Mapping[str, str], *names: str) -> Path | None:
    # systemd's STATE_DIRECTORY and CACHE_DIRECTORY may list several folders, the first is ours.
    for name in names:
        if value := environ.get(name, "").split(":")[0]:
            try:
                return Path(value).expanduser()
            except RuntimeError as error:  # of a user that there is not
                raise ConfigError(f"{name}: {value} is no folder", hint="write the path in full") from error
    return None


def _xdg(environ: Mapping[str, str], name: str, below_home: str) -> Path:
    value = environ.get(name, "")
    if value.startswith("/"):
        return Path(value)
    home = home_folder(environ)
    if home is None:
        raise ConfigError("this user has no home folder", hint=f"set HOME, or {name} to an absolute path")
    return Path(home) / below_home


def home_folder(environ: Mapping[str, str]) -> str | None:
    """The user's home, if the environment or else the user database knows one."""
    if home := environ.get("HOME"):
        return home
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_dir
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        data = read_bytes(path)
        return {} if data is None else parse_object(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", hint=error.hint) from error


def _check_keys(document: Mapping[str, Any], where: object) -> None:
    recipes = [name for name, value in document.items() if isinstance(value, dict)]
    _refuse_unknown(document, {*USED_KEYS, *UNUSED_KEYS, *recipes}, str(where))
    for name in recipes:
        # Every object counts as a recipe's section, but no recipe has options of these names.
        if name not in USED_KEYS and document[name] and document[name].keys() <= _OURS:
            raise ConfigError(f"{where}: unknown key {name!r}", hint="did you mean 'lemonpod'?")
    for name, kind in USED_KEYS.items():
        if name in document:
            _check_value(name, document[name], kind, where)


def _check_value(name: str, value: object, kind: type, where: object) -> None:
    accepted = (int, float) if kind is float else kind
    if not isinstance(value, accepted) or isinstance(value, bool) is not (kind is bool):
        raise ConfigError(f"{where}: {name} must be of type {kind.__name__}, not {value!r}")
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"{where}: {name} holds a NUL character")
    try:
        if name in config_checks.CHECKS:
            config_checks.CHECKS[name](name, value)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}", hint=error.hint) from error


def _refuse_unknown(given: Iterable[str], known: Iterable[str], where: str) -> None:
    known = sorted(known)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "remove it"
            raise ConfigError(f"{where}: unknown key {name!r}", hint=hint)


_OURS: Final = frozenset(
    field.name for kind in (EngineSettings, GatewaySettings, ContainerPolicy) for field in fields(kind)
)
_AnySettings = TypeVar("_AnySettings", EngineSettings, GatewaySettings, ContainerPolicy)


def _override(settings: _AnySettings, given: Mapping[str, Any], where: object) -> _AnySettings:
    """The settings with the fields of its own that are `given`, each checked against its type."""
    types = get_type_hints(type(settings))
    chosen = {name: value for name, value in given.items() if name in types}
    for name, value in chosen.items():
        kind = types[name]
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            if value not in list(kind):
                raise ConfigError(f"{where}: lemonpod.{name} is one of {', '.join(kind)}, not {value!r}")
            chosen[name] = kind(value)
            continue
        accepted = (int, float) if kind is float else kind
        if kind not in _KINDS:
            raise ConfigError(f"{where}: lemonpod.{name} cannot be set in a file")
        if not isinstance(value, accepted) or isinstance(value, bool) is not (kind is bool):
            raise ConfigError(f"{where}: lemonpod.{name} must be {_KINDS[kind]}, not {value!r}")
        if kind is not bool and value < 0:
            raise ConfigError(f"{where}: lemonpod.{name} must not be negative, it is {value}")
        if kind is not bool and value == 0 and name in _ABOVE_ZERO:
            raise ConfigError(f"{where}: lemonpod.{name} must be above zero")
        if kind is float and not math.isfinite(value):
            raise ConfigError(f"{where}: lemonpod.{name} must be a number of seconds, it is {value}")
    return replace(settings, **chosen)


def _watchdog(environ: Mapping[str, str]) -> dict[str, bool | int | float]:
    """Lemonade's watchdog variables as fields of ours."""
    types = get_type_hints(EngineSettings)
    found: dict[str, bool | int | float] = {}
    for variable, name in _WATCHDOG_VARIABLES.items():
        if not (text := environ.get(variable, "").strip().lower()):
            continue
        try:
            found[name] = (
                {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}[text]
                if types[name] is bool
                else types[name](text)
            )
        except (KeyError, ValueError):
            raise ConfigError(f"{variable} must be {_KINDS[types[name]]}, not {text!r}") from None
    return found
