"""Where manifests are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from lemonpod.contract.vocabulary import Os
from lemonpod.discovery.paths import Scope, discovery_paths

SHIPPED = Path("/opt/lemonpod/manifests")


@pytest.mark.parametrize("system", [Os.LINUX, Os.DARWIN])
def test_the_directories_come_in_the_order_of_their_priority(system: Os) -> None:
    environ = {"HOME": "/home/u", "XDG_CONFIG_HOME": "/cfg", "XDG_CACHE_HOME": "/cache"}
    assert list(discovery_paths(environ, os=system, shipped=SHIPPED)) == [
        (Scope.USER_CONFIG, Path("/cfg/lemonade/backends")),
        (Scope.USER_CACHE, Path("/cache/lemonade/backends")),
        (Scope.SYSTEM, Path("/usr/share/lemonade-server/backends")),
        (Scope.SYSTEM, Path("/usr/local/share/lemonade-server/backends")),
        (Scope.SYSTEM, Path("/Library/Application Support/Lemonade/backends")),
        (Scope.SYSTEM, Path("/etc/lemonade/backends")),
        (Scope.SHIPPED, SHIPPED),
    ]


@pytest.mark.parametrize("value", [None, "", "relative", "./x", "~/.config"])
def test_an_unusable_xdg_variable_counts_as_unset(value: str | None) -> None:
    environ = {"HOME": "/home/u"}
    if value is not None:
        environ |= {"XDG_CONFIG_HOME": value, "XDG_CACHE_HOME": value}
    paths = discovery_paths(environ, os=Os.LINUX, shipped=SHIPPED)
    assert paths.user_config == (Path("/home/u/.config/lemonade/backends"),)
    assert paths.user_cache == (Path("/home/u/.cache/lemonade/backends"),)


def test_without_a_home_only_what_is_named_is_looked_in() -> None:
    paths = discovery_paths({"XDG_CONFIG_HOME": "/cfg"}, os=Os.LINUX, shipped=SHIPPED)
    assert paths.user_config == (Path("/cfg/lemonade/backends"),)
    assert paths.user_cache == ()


def test_windows_has_directories_of_its_own() -> None:
    environ = {"APPDATA": "C:\\Users\\u\\AppData", "USERPROFILE": "C:\\Users\\u", "PROGRAMDATA": "C:\\Data"}
    paths = discovery_paths(environ, os=Os.WINDOWS, shipped=SHIPPED)
    assert paths.user_config == (Path("C:\\Users\\u\\AppData") / "Lemonade" / "backends",)
    assert paths.user_cache == (Path("C:\\Users\\u") / ".cache" / "Lemonade" / "backends",)
    assert paths.system == (Path("C:\\Data") / "Lemonade" / "backends",)
    assert discovery_paths({}, os=Os.WINDOWS, shipped=SHIPPED).system == ()


def test_a_file_has_the_scope_of_its_directory() -> None:
    paths = discovery_paths({"HOME": "/home/u"}, os=Os.LINUX, shipped=SHIPPED)
    assert paths.scope_of(Path("/etc/lemonade/backends/x.json")) is Scope.SYSTEM
    assert paths.scope_of(SHIPPED / "x.json") is Scope.SHIPPED
    assert paths.scope_of(SHIPPED / "deeper" / "x.json") is None
