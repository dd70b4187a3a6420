"""Debian packages the lab's engines come from, and the user that runs the rootless one."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.lab.errors import LabError, NotHereError

USER: Final = "lemonpod-lab"

PODMAN: Final = (
    "podman",
    "runc",
    "catatonit",
    "netavark",
    "aardvark-dns",
    "slirp4netns",
    "uidmap",
    "iptables",
)
DOCKER: Final = ("docker.io", "runc", "tini", "iptables", "iproute2")
REGISTRY: Final = ("docker-registry",)
IMAGES: Final = ("busybox-static",)
DEBOOTSTRAP: Final = ("debootstrap",)
ALL: Final = tuple(dict.fromkeys((*PODMAN, *DOCKER, *REGISTRY, *IMAGES, *DEBOOTSTRAP)))


def why_not() -> str | None:
    """Why this machine cannot install and run engines of the lab; None where it can."""
    if os.geteuid() != 0:
        return "the lab's engines need root: run `sudo python -m tests.lab install`, then the tests as root"
    if shutil.which("apt-get") is None:
        return f"the lab installs by apt-get, which is not here; it needs {' '.join(ALL)}"
    return None


def install(packages: Sequence[str] = ALL) -> None:
    """What is missing of `packages`, and the user; does nothing where all is there."""
    if reason := why_not():
        raise NotHereError(reason)
    with locked("packages"):
        if missing := _missing(packages):
            _apt_get("update")
            _apt_get("install", "--yes", "--no-install-recommends", *missing)
        try:
            pwd.getpwnam(USER)
        except KeyError:
            # A common user, not a system's: only those are given ranges of subordinate ids.
            run("useradd", "--no-create-home", "--shell", "/usr/sbin/nologin", USER)


def _missing(packages: Sequence[str]) -> list[str]:
    query = ("dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *packages)
    listed = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    there = {line.split()[0] for line in listed.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in there]


def _apt_get(*words: str) -> None:
    # Debian's scripts start a daemon at its installation, except in runlevel 1.
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    run("apt-get", "--quiet=2", "-o", "DPkg::Lock::Timeout=300", *words, env={**os.environ, **quiet})


def run(*argv: str, env: dict[str, str] | None = None) -> str:
    """The output of a program that has to succeed."""
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    output = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)}: exit status {done.returncode}\n{output[-4000:]}")
    return output


def cache() -> Path:
    """Where what takes long to make is kept between runs."""
    folder = Path("/var/cache/lemonpod-lab")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Only one process at a time, of all test runs of this machine."""
    with (cache() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
