"""An image that holds a real llama.cpp: this Python, xllamacpp, and lemonpod's `llama-server` program."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import lemonpod
from tests.lab.images import add_busybox, add_file, add_folders
from tests.lab.packages import run

LLAMA: Final = "localhost/lemonpod-test/llama"
"""`llama-server` is on its PATH, as lemonpod's demo is; models are for the test to mount."""

_HOME: Final = "opt/python"
_PACKAGES: Final = f"{_HOME}/packages"  # its usual folder has another name in Debian's Python
CHANGES: Final = (
    f"ENV PYTHONHOME=/{_HOME}",
    f"ENV PYTHONPATH=/{_PACKAGES}",
    f"ENV LD_LIBRARY_PATH=/{_HOME}/lib",
    'CMD ["llama-server"]',
)
_PROGRAM: Final = f'#!/bin/sh\nexec /{_HOME}/bin/python3 -m lemonpod.demo.llama_server "$@"\n'
# Of the standard library: what only developers use, and what needs X.
_LEFT_OUT: Final = re.compile(
    r"/(test|tests|idlelib|tkinter|turtledemo|ensurepip|lib2to3|(site|dist)-packages|config-[^/]*|_tkinter[^/]*)(/|$)"
)
_LIBRARY: Final = re.compile(r"(?:=> )?(/\S+) \(0x")


def write_llama(archive: Path) -> None:
    """The root folder as a tar archive; about 250 MB, of which llama.cpp is 100."""
    python = Path(sys.executable).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    standard = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix}))
    unfinished = archive.with_suffix(".part")
    with tarfile.open(unfinished, "w") as tar:
        add_busybox(tar)
        add_folders(tar, "usr", "usr/local", "usr/local/bin")
        add_file(tar, "usr/local/bin/llama-server", _PROGRAM.encode(), 0o755)
        tar.add(python, f"{_HOME}/bin/python3")
        tar.add(standard, f"{_HOME}/lib/{version}", filter=_without_ballast)
        modules = list(_files_of("xllamacpp"))
        for path, name in modules:
            tar.add(path, f"{_PACKAGES}/{name}")
        tar.add(Path(lemonpod.__file__).parent, f"{_PACKAGES}/lemonpod")
        extensions = [path for path in standard.glob("lib-dynload/*.so") if not _LEFT_OUT.search(str(path))]
        for library in _libraries(python, *extensions, *(path for path, _ in modules)):
            # The loader is named by its path in every program; the others are looked for.
            place = str(library)[1:] if library.name.startswith("ld-") else f"{_HOME}/lib/{library.name}"
            tar.add(library.resolve(), place)
    unfinished.rename(archive)


def _without_ballast(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if _LEFT_OUT.search(f"/{entry.name}") else entry


def _files_of(distribution: str) -> Iterator[tuple[Path, str]]:
    for file in importlib.metadata.files(distribution) or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            yield Path(str(file.locate())), str(file)


def _libraries(*binaries: Path) -> list[Path]:
    """The shared libraries they need, those of other libraries included."""
    elf = [str(path) for path in binaries if _is_elf(path)]
    return sorted({Path(found) for found in _LIBRARY.findall(run("ldd", *elf))})


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
