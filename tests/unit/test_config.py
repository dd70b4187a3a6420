"""Settings: layers, folders, and refusals that name file and key."""

from __future__ import annotations

import json
import os
import pwd
import re
from pathlib import Path
from typing import Any

import pytest

from lemonpod.config import Folders, Settings, find_folders, load_settings
from lemonpod.errors import ConfigError


def load(tmp_path: Path, document: Any = None, environ: dict[str, str] | None = None) -> Settings:
    if document is not None:
        (tmp_path / "config.json").write_text(json.dumps(document))
    return load_settings(environ or {}, Folders(cache=tmp_path, config=tmp_path))


def test_defaults_are_lemonades(tmp_path: Path) -> None:
    settings = load(tmp_path)

    assert (settings.host, settings.port, settings.log_level) == ("localhost", 13305, "info")
    assert settings.launch_options == {}
    assert settings.max_loaded_models == 1
    assert settings.memory_threshold == 0.9


def test_a_config_file_of_lemonade_is_accepted(tmp_path: Path) -> None:
    document = {
        "config_version": 2,
        "max_loaded_models": -1,
        "auto_evict": True,
        "auto_evict_threshold_pct": 0.8,
        "evict_idle_timeout": 600,
        "evict_weight_factor": 2,
        "telemetry": {"enabled": False},
        "llamacpp": {"backend": "auto", "args": ""},
        "port": 8000,
        "ctx_size": 8192,
    }

    settings = load(tmp_path, document)

    assert settings.port == 8000
    assert settings.max_loaded_models == -1
    assert settings.launch_options == {
        "ctx_size": 8192,
        "auto_evict": True,
        "evict_idle_timeout": 600,
        "evict_weight_factor": 2,
    }
    assert settings.memory_threshold == 0.8
    assert settings.recipe_options["llamacpp"] == {"backend": "auto", "args": ""}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"max_loaded_models": 0}, "max_loaded_models must be above zero, or -1 for any number, not 0"),
        ({"max_loaded_models": True}, "max_loaded_models must be of type int, not True"),
        ({"auto_evict": 1}, "auto_evict must be of type bool, not 1"),
        ({"auto_evict_threshold_pct": 90}, "auto_evict_threshold_pct must be between 0 and 1, not 90"),
        ({"auto_evict_threshold_pct": "90%"}, "auto_evict_threshold_pct must be of type float, not '90%'"),
        ({"evict_weight_factor": "much"}, "evict_weight_factor must be of type float, not 'much'"),
        ({"evict_idle_timeout": "soon"}, "evict_idle_timeout must be of type float, not 'soon'"),
        ({"lemonpod": {"max_queue": 0}}, "lemonpod.max_queue must be above zero"),
    ],
)
def test_a_limit_that_is_none_is_refused(tmp_path: Path, document: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load(tmp_path, document)


def test_the_command_line_wins_over_the_file_and_the_file_over_the_defaults_file(
    tmp_path: Path,
) -> None:
    defaults = tmp_path / "defaults.json"
    defaults.write_text(
        '{"port": 1, "host": "0.0.0.0", "log_level": "debug", "r": {"threads": 8, "ctx_size": 1}}'
    )
    (tmp_path / "config.json").write_text('{"port": 2, "host": "::1", "r": {"ctx_size": 2}}')

    settings = load_settings(
        {"LEMONADE_DEFAULTS_PATH": str(defaults)}, Folders(cache=tmp_path, config=tmp_path), port=3
    )

    assert (settings.port, settings.host, settings.log_level) == (3, "::1", "debug")
    assert settings.recipe_options == {"r": {"threads": 8, "ctx_size": 2}}


def test_our_own_section_sets_engines_and_gateway(tmp_path: Path) -> None:
    settings = load(tmp_path, {"lemonpod": {"stop_grace": 1, "first_port": 9000, "last_port": 9001}})

    assert settings.engine.stop_grace == 1
    assert (settings.engine.first_port, settings.engine.last_port) == (9000, 9001)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"prot": 1}, "unknown key 'prot' (did you mean 'port'?)"),
        ({"port": "13305"}, "port must be of type int, not '13305'"),
        ({"host": "a..b"}, "host 'a..b' is no name or address of a machine"),
        ({"host": "é" * 80}, "is no name or address of a machine"),
        ({"host": ""}, "host is empty"),
        ({"evict_weight_factor": 0}, "evict_weight_factor must be above zero, not 0"),
        ({"evict_idle_timeout": -2}, "evict_idle_timeout must be a number of seconds, not -2"),
        ({"port": True}, "port must be of type int, not True"),
        ({"port": 70000}, "port must be between 0 and 65535"),
        ({"log_level": "loud"}, "log_level must be one of"),
        ({"lemonpod": {"stop_graze": 1}}, "unknown key 'stop_graze' (did you mean 'stop_grace'?)"),
        ({"lemonpod": {"stop_grace": "5"}}, "lemonpod.stop_grace must be a number, not '5'"),
        ({"lemonpod": {"watchdog": 1}}, "lemonpod.watchdog must be true or false, not 1"),
        ({"lemonpod": {"stop_grace": -1}}, "must not be negative"),
        ({"lemonpod": {"first_port": 9000}}, "9000 to 8999 is no range of ports"),
        ({"lemonpod": {"first_port": 0}}, "0 to 8999 is no range of ports"),
        ({"lemonpod": {"first_port": 1.5}}, "lemonpod.first_port must be an integer, not 1.5"),
        ({"lemonpod": {"pull_timeout": 0}}, "lemonpod.pull_timeout must be above zero"),
        ({"lemonpod": {"watchdog_interval": 0}}, "lemonpod.watchdog_interval must be above zero"),
        ({"lemonpod": {"api_key": "k"}}, "lemonpod.api_key cannot be set in a file"),
        ({"lemonpd": {"first_port": 9000}}, "unknown key 'lemonpd' (did you mean 'lemonpod'?)"),
        ({"models_dir": "a\0b"}, "models_dir holds a NUL character"),
        ([], "must hold a JSON object"),
    ],
)
def test_a_bad_file_is_refused_with_its_key(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, document)

    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/config.json: ")


def test_a_file_that_is_no_json_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")

    with pytest.raises(ConfigError, match=r"config\.json: line 1, column 2: not valid JSON"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"port": 1, "port": 2}', "the key 'port' appears twice"),
        ('{"lemonpod": {"stop_grace": NaN}}', "NaN is not JSON"),
        ('{"lemonpod": {"stop_grace": 1e999}}', "1e999 is too large"),
        ('{"port": 1, "models_dir": "\\ud800"}', "half of a surrogate pair"),
    ],
)
def test_what_json_leaves_open_is_refused_too(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.json").write_text(text)

    with pytest.raises(ConfigError, match=message):
        load(tmp_path)


def test_a_byte_order_mark_is_let_through(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('\ufeff{"port": 1}', encoding="utf-8")

    assert load(tmp_path).port == 1


@pytest.mark.parametrize("host", ["localhost", "0.0.0.0", "::", "::1", "example.org.", "bücher.example"])
def test_any_name_or_address_may_be_the_host(tmp_path: Path, host: str) -> None:
    assert load_settings({}, Folders(cache=tmp_path, config=tmp_path), host=host).host == host


def test_keys_and_origins_come_from_the_environment(tmp_path: Path) -> None:
    environ = {
        "LEMONADE_API_KEY": "a",
        "LEMONADE_ADMIN_API_KEY": "",
        "LEMONADE_ALLOWED_ORIGINS": "https://a.example, https://b.example",
    }

    gateway = load(tmp_path, environ=environ).gateway

    assert (gateway.api_key, gateway.admin_api_key) == ("a", None)
    assert gateway.allowed_origins == ("https://a.example", "https://b.example")


def test_the_watchdog_listens_to_lemonades_variables(tmp_path: Path) -> None:
    environ = {
        "LEMONADE_BACKEND_WATCHDOG": "off",
        "LEMONADE_BACKEND_WATCHDOG_MAX_FAILURES": "5",
        "LEMONADE_BACKEND_WATCHDOG_POLL_SECONDS": "0.5",
    }

    engine = load(tmp_path, environ=environ).engine

    assert (
        engine.watchdog,
        engine.watchdog_max_failures,
        engine.watchdog_interval,
    ) == (False, 5, 0.5)
    with pytest.raises(ConfigError, match="watchdog_interval must be a number of seconds, it is nan"):
        load(tmp_path, environ={"LEMONADE_BACKEND_WATCHDOG_POLL_SECONDS": "nan"})
    with pytest.raises(ConfigError, match="LEMONADE_BACKEND_WATCHDOG must be true or false"):
        load(tmp_path, environ={"LEMONADE_BACKEND_WATCHDOG": "maybe"})


@pytest.mark.parametrize(
    ("environ", "cache", "config"),
    [
        ({"HOME": "/h"}, "/h/.cache/lemonade", "/h/.config/lemonade"),
        (
            {"HOME": "/h", "XDG_CACHE_HOME": "/c", "XDG_CONFIG_HOME": "/x"},
            "/c/lemonade",
            "/x/lemonade",
        ),
        (
            {"HOME": "/h", "XDG_CACHE_HOME": "rel", "XDG_CONFIG_HOME": ""},
            "/h/.cache/lemonade",
            "/h/.config/lemonade",
        ),
        (
            {"HOME": "/h", "LEMONADE_CACHE_DIR": "/l", "STATE_DIRECTORY": "/s:/t"},
            "/l",
            "/s",
        ),
        ({"HOME": "/h", "CACHE_DIRECTORY": "/d"}, "/d", "/h/.config/lemonade"),
    ],
)
def test_folders_follow_the_environment(environ: dict[str, str], cache: str, config: str) -> None:
    assert Folders(cache=Path(cache), config=Path(config)) == find_folders(environ)


def test_a_cache_folder_alone_holds_the_config_too() -> None:
    found = find_folders({"XDG_CONFIG_HOME": "/x"}, cache=Path("/a"))

    assert Folders(cache=Path("/a"), config=Path("/a")) == found


def test_without_a_home_the_folders_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    named = {"XDG_CACHE_HOME": "/c", "XDG_CONFIG_HOME": "/x"}

    assert find_folders(named) == Folders(cache=Path("/c/lemonade"), config=Path("/x/lemonade"))
    with pytest.raises(ConfigError, match="this user has no home folder"):
        find_folders({"XDG_CACHE_HOME": "/c"})


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_a_home_that_the_environment_does_not_name_is_the_users_own(environ: dict[str, str]) -> None:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)

    assert find_folders(environ).config == home / ".config/lemonade"


def test_the_home_of_a_user_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="LEMONADE_CACHE_DIR: ~no-such-user/x is no folder"):
        find_folders({"HOME": "/h", "LEMONADE_CACHE_DIR": "~no-such-user/x"})
