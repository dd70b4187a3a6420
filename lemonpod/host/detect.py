"""Finds out what machine this is. Reads only, and a file that is not there is an unknown fact."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from pathlib import Path
from typing import Final

from lemonpod.contract.vocabulary import Accelerator, Os
from lemonpod.errors import ConfigError
from lemonpod.host.facts import HostFacts

_SYSTEMS: Final = {"linux": Os.LINUX, "darwin": Os.DARWIN, "win32": Os.WINDOWS}
_ACCELERATORS: Final = (Accelerator.CPU,)
# No file read here is longer; /proc/cpuinfo of a large machine is the longest.
_MAX_BYTES: Final = 4 << 20


def detect(root: Path = Path("/"), *, system: str = sys.platform) -> HostFacts:
    """The facts of this machine, on Linux from the files under `root`.

    Raises ConfigError on an operating system that manifests have no name for.
    """
    os = _SYSTEMS.get(system)
    if os is None:
        raise ConfigError(f"'{system}' is not an operating system that manifests know")
    if os is Os.LINUX:
        return _linux(root)
    return HostFacts(
        os=os,
        os_version=platform.platform() or None,
        machine=platform.machine(),
        cpu_name=platform.processor() or None,
        cpu_count=None,
        memory_bytes=None,
        accelerators=_ACCELERATORS,
    )


def _linux(root: Path) -> HostFacts:
    cpus = _text(root / "proc/cpuinfo")
    return HostFacts(
        os=Os.LINUX,
        os_version=_os_version(root),
        machine=platform.machine(),
        cpu_name=_first(r"^model name\s*:[ \t]*(\S.*?)[ \t]*$", cpus),
        cpu_count=len(re.findall(r"^processor\s*:", cpus, re.MULTILINE)) or None,
        memory_bytes=_memory(_text(root / "proc/meminfo")),
        accelerators=_ACCELERATORS,
    )


def _os_version(root: Path) -> str | None:
    """`Linux-<kernel> (<name> <version>)`, as Lemonade writes it, with what is known of it."""
    kernel = _first(r"^Linux version (\S+)", _text(root / "proc/version"))
    distribution = _distribution(root)
    if kernel is None:
        return distribution
    return f"Linux-{kernel} ({distribution})" if distribution else f"Linux-{kernel}"


def _distribution(root: Path) -> str | None:
    # os-release(5): the file in /usr/lib counts where there is none in /etc.
    release = _text(root / "etc/os-release") or _text(root / "usr/lib/os-release")
    parts = (_assigned(name, release) for name in ("NAME", "VERSION_ID"))
    return " ".join(part for part in parts if part) or None


def _assigned(name: str, text: str) -> str | None:
    """The value of a shell-like assignment."""
    value = _first(rf"^{name}=(.*)$", text)
    if value is None:
        return None
    try:
        return " ".join(shlex.split(value)) or None
    except ValueError:
        return None


def _memory(text: str) -> int | None:
    kibibytes = _first(r"^MemTotal:\s*([0-9]+) kB", text)
    return int(kibibytes) * 1024 if kibibytes else None


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else None


def _text(path: Path) -> str:
    """The file's text, or none: a container may hide, mask or forbid any of them."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError:
        return ""
