"""Debian 13 in a folder, for the engines that are one generation newer than this machine's."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Final

from tests.lab.errors import NotHereError
from tests.lab.packages import DEBOOTSTRAP, cache, install, locked, run, why_not

SUITE: Final = "trixie"
PACKAGES: Final = (
    "podman",
    "runc",
    "catatonit",
    "netavark",
    "aardvark-dns",
    "passt",
    "iptables",
    "iproute2",
    "ca-certificates",
    "docker.io",
    "docker-cli",
    "tini",
)
_MIRROR: Final = "http://deb.debian.org/debian"


def root() -> Path:
    """Where it is, or will be; another list of packages makes another one."""
    return cache() / f"{SUITE}-{hashlib.sha256(' '.join(PACKAGES).encode()).hexdigest()[:12]}"


def make_root() -> Path:
    """The folder, made on the first call (about a minute) and kept."""
    if reason := why_not():
        raise NotHereError(reason)
    install(DEBOOTSTRAP)
    with locked(SUITE):
        if not root().exists():
            unfinished = root().with_suffix(".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            include = f"--include={','.join(PACKAGES)}"
            run("debootstrap", "--variant=minbase", include, SUITE, str(unfinished), mirror())
            shutil.rmtree(unfinished / "var/cache/apt", ignore_errors=True)
            unfinished.rename(root())
    return root()


def mirror() -> str:
    """The mirror that this machine's own packages come from, where it is one of Debian."""
    known = run(
        "apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(REPO_URI)", "Created-By: Packages"
    )
    for line in known.splitlines():
        origin, _, rest = line.partition(" ")
        codename, _, uri = rest.partition(" ")
        if origin == "Debian" and codename.isalpha():
            return uri
    return _MIRROR
