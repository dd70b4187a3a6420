"""Finds out what machine this is. Reads only, and a file that is not there is an unknown fact."""

from __future__ import annotations

import platform
import sys
from typing import Final

from lemonpod.contract.vocabulary import Accelerator, Os
from lemonpod.errors import ConfigError
from lemonpod.host import linux, pci
from lemonpod.host.facts import HostFacts
from lemonpod.host.tree import Folder, Tree

_SYSTEMS: Final = {"linux": Os.LINUX, "darwin": Os.DARWIN, "win32": Os.WINDOWS}

# Where GPUs and NPUs show themselves that no PCI bus does, as in a container without /sys.
_ELSEWHERE: Final = (
    "/sys/class/drm",
    "/sys/class/accel",
    "/sys/bus/platform/drivers/gk20a",
    "/proc/driver/nvidia/gpus",
    "/dev/dxg",
)


def detect(tree: Tree | None = None, *, system: str = sys.platform) -> HostFacts:
    """The facts of this machine, or of the one whose files `tree` has, which is always one with Linux.

    Raises ConfigError on an operating system that manifests have no name for.
    """
    if tree is not None:
        return _linux(tree)
    os = _SYSTEMS.get(system)
    if os is None:
        raise ConfigError(f"'{system}' is not an operating system that manifests know")
    if os is Os.LINUX:
        return _linux(Folder())
    metal = (Accelerator.METAL,) if os is Os.DARWIN else ()
    return HostFacts(
        os=os,
        os_version=platform.platform() or None,
        machine=platform.machine() or None,
        cpu_name=platform.processor() or None,
        cpu_count=None,
        memory_bytes=None,
        accelerators=(*metal, Accelerator.CPU),
    )


def _linux(tree: Tree) -> HostFacts:
    cpus = tree.read("/proc/cpuinfo") or ""
    facts = HostFacts(
        os=Os.LINUX,
        os_version=linux.os_version(tree),
        machine=linux.machine(tree, cpus),
        cpu_name=linux.cpu_name(cpus),
        cpu_count=linux.cpu_count(cpus),
        core_count=linux.core_count(cpus),
        memory_bytes=linux.memory_bytes(tree),
        accelerators=(Accelerator.CPU,),
    )
    functions = pci.functions(tree)
    if not functions and not any(tree.real(place) for place in _ELSEWHERE):
        return facts  # a server without any starts sooner without the modules that know them
    from lemonpod.host.look import look

    return look(tree, functions, facts)
