"""The real servers of llama.cpp and whisper.cpp, from Debian's unstable suite, in a folder of their own.

They run on their own C library, so that nothing of this machine has to be as new as they are.
"""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Final

from tests.lab.errors import NotHereError
from tests.lab.packages import cache, locked, run, why_not
from tests.lab.trixie import mirror

PROGRAMS: Final = ("llama-server", "whisper-server")

_SUITE: Final = "sid"
_PACKAGES: Final = ("llama.cpp-tools", "whisper.cpp-tools")
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_WRAPPER: Final = """#!/bin/sh
export GGML_BACKEND_PATH={libraries}/ggml/backends0/libggml-cpu-x64.so
unset LD_LIBRARY_PATH
exec {libraries}/ld-linux-x86-64.so.2 --library-path {path} {root}/usr/bin/{name} "$@"
"""


def make_programs(folder: Path) -> None:
    """Put the programs into `folder`; what they need is fetched on the first call and kept."""
    root = fetch_programs()
    libraries = root / "usr/lib/x86_64-linux-gnu"
    path = ":".join(str(libraries / name) for name in ("", "llama", "blas", "lapack", "pulseaudio"))
    for name in PROGRAMS:
        program = folder / name
        program.write_text(_WRAPPER.format(root=root, libraries=libraries, path=path, name=name))
        program.chmod(0o755)


def fetch_programs() -> Path:
    """The root folder of the programs and all that they need; nothing happens the second time."""
    if reason := why_not():
        raise NotHereError(reason)
    if platform.machine() != "x86_64":
        raise NotHereError("the lab's native servers are for x86_64")
    root = cache() / "native"
    with locked("native"):
        if not root.exists():
            unfinished = root.with_suffix(".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            _fetch(unfinished / "apt")
            for package in sorted((unfinished / "apt/cache/archives").glob("*.deb")):
                run("dpkg-deb", "--extract", str(package), str(unfinished))
            shutil.rmtree(unfinished / "apt")
            unfinished.rename(root)
    return root


def _fetch(apt: Path) -> None:
    """The packages with all that they depend on, as for a machine that has nothing yet."""
    for folder in ("etc", "lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True)
    (apt / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {mirror()} {_SUITE} main\n")
    (apt / "status").touch()
    settings = {
        "Dir::Etc": apt / "etc",
        "Dir::Etc::SourceList": apt / "sources.list",
        "Dir::State::Lists": apt / "lists",
        "Dir::State::Status": apt / "status",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", *options, "update", env=env)
    run(
        *("apt-get", *options, "install", "--yes", "--no-install-recommends", "--download-only"),
        *_PACKAGES,
        env=env,
    )
