"""The directories that manifests are looked for in, highest priority first (RFC section 8).

A variable that is unset, empty or not an absolute path counts as absent, as the XDG specification asks, and
so does a home that the environment does not name: a directory that depends on it is then not looked in.
macOS takes the same directories as Linux.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from lemonpod.contract.vocabulary import Os

_POSIX_SYSTEM: Final = (
    Path("/usr/share/lemonade-server/backends"),
    Path("/usr/local/share/lemonade-server/backends"),
    Path("/Library/Application Support/Lemonade/backends"),
    Path("/etc/lemonade/backends"),
)


class Scope(StrEnum):
    """Who puts manifests into a directory, and so who must own them."""

    USER_CONFIG = "user_config"
    USER_CACHE = "user_cache"
    SYSTEM = "system"
    SHIPPED = "shipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryPaths:
    user_config: tuple[Path, ...]
    user_cache: tuple[Path, ...]
    system: tuple[Path, ...]
    shipped: tuple[Path, ...]

    def __iter__(self) -> Iterator[tuple[Scope, Path]]:
        for scope in Scope:
            directories: tuple[Path, ...] = getattr(self, scope)
            yield from ((scope, directory) for directory in directories)

    def scope_of(self, path: Path) -> Scope | None:
        """The scope of the discovery directory that the file `path` is in."""
        return next((scope for scope, directory in self if path.parent == directory), None)


def discovery_paths(environ: Mapping[str, str], *, os: Os, shipped: Path) -> DiscoveryPaths:
    """The directories for `environ` on `os`; `shipped` holds the manifests that come with lemonpod."""
    if os is Os.WINDOWS:
        tail = Path("Lemonade", "backends")
        config = _base(environ, "APPDATA", os)
        profile = _base(environ, "USERPROFILE", os)
        program_data = _base(environ, "PROGRAMDATA", os)
        cache = profile / ".cache" if profile else None
        system: tuple[Path, ...] = (program_data / tail,) if program_data else ()
    else:
        tail = Path("lemonade", "backends")
        home = _base(environ, "HOME", os)
        config = _base(environ, "XDG_CONFIG_HOME", os) or (home / ".config" if home else None)
        cache = _base(environ, "XDG_CACHE_HOME", os) or (home / ".cache" if home else None)
        system = _POSIX_SYSTEM
    return DiscoveryPaths(
        user_config=(config / tail,) if config else (),
        user_cache=(cache / tail,) if cache else (),
        system=system,
        shipped=(shipped,),
    )


def _base(environ: Mapping[str, str], variable: str, os: Os) -> Path | None:
    flavour = PureWindowsPath if os is Os.WINDOWS else PurePosixPath
    value = environ.get(variable, "")
    return Path(value) if flavour(value).is_absolute() else None
