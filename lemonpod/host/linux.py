"""Processor, memory, kernel and distribution."""

from __future__ import annotations

import re
import shlex
from typing import Final

from lemonpod.host.tree import Tree

_RELEASES: Final = ("/etc/os-release", "/usr/lib/os-release")


def os_version(tree: Tree) -> str | None:
    """`Linux-<kernel> (<name> <version>)`, as Lemonade writes it, with what is known of it."""
    kernel = _kernel(tree)
    distribution = _distribution(tree)
    if kernel is None:
        return distribution
    return f"Linux-{kernel} ({distribution})" if distribution else f"Linux-{kernel}"


def kernel_version(tree: Tree) -> tuple[int, int] | None:
    """The first two numbers of the kernel's version, which features are counted by."""
    match = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", _kernel(tree) or "")
    return (int(match[1]), int(match[2])) if match else None


def machine(tree: Tree, cpus: str) -> str | None:
    """The instruction set as `uname -m` has it; of a tree from elsewhere, as far as its processors tell."""
    if tree.machine is not None:
        return tree.machine
    # Linux 6.1 and later.
    if arch := (tree.read("/proc/sys/kernel/arch") or "").strip():
        return arch
    if re.search(r"^CPU implementer\s*:", cpus, re.MULTILINE):
        return "aarch64"
    return "x86_64" if re.search(r"^vendor_id\s*:", cpus, re.MULTILINE) else None


def cpu_name(cpus: str) -> str | None:
    """What /proc/cpuinfo calls the processor; on ARM it does not."""
    return _first(r"^model name\s*:[ \t]*(\S.*?)[ \t]*$", cpus)


def cpu_count(cpus: str) -> int | None:
    """How many threads run at once."""
    return len(re.findall(r"^processor\s*:", cpus, re.MULTILINE)) or None


def core_count(cpus: str) -> int | None:
    """How many cores those threads share; unknown where the processor does not number them."""
    places = re.findall(r"^(physical id|core id)[ \t]*:[ \t]*([0-9]{1,9})$", cpus, re.MULTILINE)
    sockets = [number for name, number in places if name == "physical id"]
    cores = [number for name, number in places if name == "core id"]
    return len(set(zip(sockets, cores, strict=True))) or None if len(sockets) == len(cores) else None


def memory_bytes(tree: Tree) -> int | None:
    """All memory of the machine."""
    return _memory("MemTotal", tree)


def memory_share(tree: Tree) -> float | None:
    """How much of it programs could not have now: files that are only cached do not count."""
    total, available = _memory("MemTotal", tree), _memory("MemAvailable", tree)
    return None if not total or available is None else max(1 - available / total, 0.0)


def _memory(name: str, tree: Tree) -> int | None:
    kibibytes = _first(rf"^{name}:\s*([0-9]{{1,18}}) kB", tree.read("/proc/meminfo") or "")
    return int(kibibytes) * 1024 if kibibytes else None


def _kernel(tree: Tree) -> str | None:
    return _first(r"^Linux version (\S+)", tree.read("/proc/version") or "")


def _distribution(tree: Tree) -> str | None:
    # os-release(5): the file in /usr/lib counts where there is none in /etc.
    release = next((text for path in _RELEASES if (text := tree.read(path))), "")
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


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else None
