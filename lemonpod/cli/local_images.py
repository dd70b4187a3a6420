"""The digests by which this machine's own container engines know an image."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path

from lemonpod.config import home_folder
from lemonpod.drivers.address import addresses
from lemonpod.drivers.docker import DockerRuntime
from lemonpod.drivers.podman import PodmanRuntime
from lemonpod.drivers.reach import first_reachable
from lemonpod.errors import EngineError, RuntimeUnavailableError
from lemonpod.launch.container import Runtime
from lemonpod.pin.source import DigestError, UnreachableError


class LocalImages:
    """Those of some runtimes, where the environment says or else at their usual places."""

    def __init__(self, environ: Mapping[str, str], runtimes: Collection[Runtime]) -> None:
        self._environ = environ
        self._runtimes = sorted(runtimes)
        self._home = Path(home_folder(environ) or "/nonexistent")

    def repo_digests(self, reference: str) -> tuple[str, ...] | None:
        """The image's names with digest, None if nobody has it; raises DigestError."""
        obstacles: list[str] = []
        found: list[tuple[str, ...]] = []
        for runtime in self._runtimes:
            try:
                found += self._of(runtime, reference)
            except RuntimeUnavailableError as error:
                obstacles.append(f"{runtime}: {error.message}")
            except EngineError as error:
                raise DigestError(f"{runtime}: {error.message}", hint=error.hint) from error
        if len(obstacles) == len(self._runtimes):
            raise UnreachableError("; ".join(obstacles))
        return tuple(name for names in found for name in names) if found else None

    def _of(self, runtime: Runtime, reference: str) -> list[tuple[str, ...]]:
        """The names that one engine has, in a list that is empty where it does not have the image."""
        places = addresses(runtime, None, None, self._environ, home=self._home, euid=os.geteuid())
        address = first_reachable(places)
        kind = PodmanRuntime if runtime is Runtime.PODMAN else DockerRuntime
        with closing(kind(address)) as engine:
            image = engine.image(reference)
        return [] if image is None else [image.digests]
