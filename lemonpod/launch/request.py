"""What a launch plan is made from."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.vocabulary import JsonValue
from lemonpod.host.facts import HostFacts
from lemonpod.launch.installed import NOTHING_INSTALLED, Installs
from lemonpod.launch.started import ContainerDriving
from lemonpod.models.entry import CheckpointFile, ModelEntry


def _no_files(path: str) -> str:
    raise FileNotFoundError(errno.ENOENT, "no files can be read here", path)


class Programs(Protocol):
    """What may be asked about the programs on this machine. Nothing is run, and nothing raised."""

    def usable(self, path: Path) -> bool:
        """Whether an executable file is there."""

    def on_path(self, name: str) -> Path | None:
        """The program that a bare name stands for, on the PATH of engines."""

    def below(self, folder: Path, name: str) -> Path | None:
        """The program of that name in the folder or anywhere below it."""

    def libraries(self, folder: Path, arch: str) -> tuple[Path, ...]:
        """The folders of libraries in the newest of `folder`'s releases for a GPU architecture."""


class NoPrograms:
    """A machine without any."""

    def usable(self, path: Path) -> bool:
        return False

    def on_path(self, name: str) -> Path | None:
        return None

    def below(self, folder: Path, name: str) -> Path | None:
        return None

    def libraries(self, folder: Path, arch: str) -> tuple[Path, ...]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPolicy:
    """What an operator can set about command lines of podman and docker."""

    container_driver: ContainerDriving = ContainerDriving.AUTO
    require_pinned_images: bool = False
    """Refuse to launch a container whose image has no digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """What the server's own settings add: folders, the address engines listen on, and option defaults."""

    hf_cache: Path
    cache_dir: Path
    log_level: str = "info"
    host: str = "127.0.0.1"
    options: Mapping[str, JsonValue] = field(default_factory=lambda: MappingProxyType({}))
    """Of config.json, for every recipe."""
    recipe_options: Mapping[str, Mapping[str, JsonValue]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """Of config.json's section of the recipe; stronger than `options`."""
    containers: ContainerPolicy = ContainerPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One launch to plan. `files` says where each of the entry's checkpoints is, by the same names.

    `overrides` are the options of the load request, `installs` what is installed of the recipe, `env` and
    `folder` the environment and the working folder of the server. `read` gives the text of a file that a
    command line names, and raises OSError.
    """

    manifest: Manifest
    entry: ModelEntry
    files: Mapping[str, CheckpointFile]
    overrides: Mapping[str, JsonValue]
    facts: HostFacts
    port: int
    settings: LaunchSettings
    env: Mapping[str, str]
    installs: Installs = NOTHING_INSTALLED
    folder: str = "/"
    read: Callable[[str], str] = _no_files
    programs: Programs = field(default_factory=NoPrograms)
