"""All parts together: a folder for each lab of this machine, its engines started when first asked for."""

from __future__ import annotations

import fcntl
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

from tests.lab import trixie
from tests.lab.docker import start_docker
from tests.lab.engine import ContainerEngine
from tests.lab.errors import LabError
from tests.lab.images import TINY, has_image, import_image, write_tiny
from tests.lab.llama_image import CHANGES, LLAMA, write_llama
from tests.lab.packages import USER, install
from tests.lab.podman import bridge, start_podman
from tests.lab.registry import Registry, start_registry
from tests.lab.space import Space, end_all_in

LABS: Final = Path("/var/lib/lemonpod-lab")
"""Here and not in /tmp, where names are anybody's; short, because a socket's path has 107 characters."""

_CDI: Final = Path(__file__).with_name("devices.json")
BY_HAND: Final = 0
"""The number of the lab that `python -m tests.lab up` makes; those of test runs come after it."""
_LABS: Final = 25


@dataclass(frozen=True)
class Kind:
    """An engine that the lab can start."""

    start: Callable[..., ContainerEngine]
    newer: bool = False
    rootless: bool = False


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "podman4": Kind(start_podman),
        "podman4-rootless": Kind(start_podman, rootless=True),
        "podman5": Kind(start_podman, newer=True),
        "docker20": Kind(start_docker),
        "docker26": Kind(start_docker, newer=True),
    }
)


def install_all() -> None:
    """Everything that engines need; nothing happens the second time."""
    install()
    trixie.make_root()


class Lab:
    """One lab: `number` says where it is and which networks are its own."""

    def __init__(self, number: int) -> None:
        self.folder = LABS / str(number)
        self._number = number
        self._engines: dict[str, ContainerEngine] = {}
        self._failed: dict[str, str] = {}
        self._spaces: list[Space] = []

    def engine(self, name: str) -> ContainerEngine:
        """The engine, started on the first call; raises NotHereError, or LabError with its log."""
        if name in self._failed:
            raise LabError(f"{name} did not come up before: {self._failed[name]}")
        if name not in self._engines:
            try:
                install()
                self._engines[name] = self._start(name)
            except (LabError, OSError) as error:
                self._failed[name] = str(error)
                raise
        return self._engines[name]

    def _start(self, name: str) -> ContainerEngine:
        kind = KINDS[name]
        user = pwd.getpwnam(USER).pw_uid if kind.rootless else 0
        said = {"rootless": True} if kind.rootless else {}
        engine = kind.start(
            name, self._space(name, newer=kind.newer, user=user), network=_network(self._number, name), **said
        )
        self._give(engine, TINY, write_tiny, 'CMD ["/bin/sh"]')
        return engine

    def llama(self, engine: ContainerEngine) -> str:
        """The image with a real llama.cpp, given to the engine when first asked for: it is big."""
        self._give(engine, LLAMA, write_llama, *CHANGES)
        return LLAMA

    def _give(
        self, engine: ContainerEngine, image: str, write: Callable[[Path], None], *changes: str
    ) -> None:
        archive = self.folder / f"{Path(image).name}.tar"
        if not archive.exists():
            write(archive)
        if not has_image(engine, image):
            import_image(engine, archive, image, *changes)

    def registry(self, *, login: bool = False) -> Registry:
        """Another registry, empty."""
        return start_registry(self._space(f"registry-{len(self._spaces)}"), login=login)

    def _space(self, name: str, *, newer: bool = False, user: int = 0) -> Space:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(_CDI, folder)
        self._spaces.append(Space(folder, root=trixie.make_root() if newer else None, user=user))
        return self._spaces[-1]

    def close(self) -> None:
        """End and remove all of it, also what another process has started here."""
        for engine in self._engines.values():
            try:
                engine.remove_test_containers()  # so that networks and mounts are taken down in order
            except OSError:
                continue
        for space in self._spaces:
            space.close()
        end(self._number)


def end(number: int) -> None:
    """End all processes of a lab, whoever has started them, and remove its folder and its bridges."""
    folder = LABS / str(number)
    end_all_in(folder)
    for name in KINDS:
        subprocess.run(
            ("ip", "link", "delete", bridge(_network(number, name))), capture_output=True, check=False
        )
    shutil.rmtree(folder, ignore_errors=True)


def _network(number: int, name: str) -> int:
    return number * 10 + list(KINDS).index(name)


@contextmanager
def lab_of_a_run() -> Iterator[Lab]:
    """A lab that lives as long as this process, with nobody else's number; dead ones are cleaned first."""
    with _free_number() as number:
        lab = Lab(number)
        try:
            yield lab
        finally:
            lab.close()


@contextmanager
def _free_number() -> Iterator[int]:
    LABS.mkdir(parents=True, exist_ok=True)
    mine: tuple[int, IO[str]] | None = None
    for number in range(BY_HAND + 1, _LABS):
        dead = (LABS / str(number)).exists()
        if (mine is None or dead) and (lock := _locked(number)):
            if dead:
                end(number)
            if mine is None:
                mine = number, lock
            else:
                lock.close()
    if mine is None:
        raise LabError(f"all {_LABS} labs of {LABS} are in use")
    with mine[1]:
        yield mine[0]


def _locked(number: int) -> IO[str] | None:
    """The lock that a living run holds of its number; None where another one does."""
    file = (LABS / f"{number}.lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
