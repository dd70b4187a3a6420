"""PCI functions that compute or show something, from sysfs. Nothing here wakes a device that sleeps.

What is read is cached by the kernel; `config`, and opening a node, would resume the device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lemonpod.host.numbers import hexadecimal
from lemonpod.host.tree import Tree

AMD: Final = 0x1002
AMD_CPU: Final = 0x1022
"""Advanced Micro Devices as the maker of processors, whose NPUs are theirs."""
INTEL: Final = 0x8086
NVIDIA: Final = 0x10DE

_DEVICES: Final = "/sys/bus/pci/devices"
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Base classes: display controllers, processing accelerators, and signal processing, which AMD's NPUs are.
_DISPLAY: Final = 0x03
_ACCELERATOR: Final = 0x12
_SIGNAL: Final = 0x11


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of a PCI device; `path` is its folder without links."""

    address: str
    path: str
    pci_class: int
    vendor: int | None
    device: int | None
    driver: str | None

    @property
    def pci_id(self) -> str:
        """`10de:2684`, as lspci has it."""
        return ":".join("?" if part is None else f"{part:04x}" for part in (self.vendor, self.device))

    @property
    def is_display(self) -> bool:
        return self.pci_class >> 16 == _DISPLAY


def functions(tree: Tree) -> tuple[Function, ...]:
    """Those of classes that GPUs and NPUs have, in the order of their addresses."""
    found = (_function(tree, name) for name in tree.names(_DEVICES) if _ADDRESS.fullmatch(name))
    return tuple(function for function in found if function)


def driver_of(tree: Tree, device: str) -> str | None:
    """The name of the driver that a device is bound to."""
    real = tree.real(f"{device}/driver")
    return None if real is None else real.rpartition("/")[2] or None


def is_suspended(tree: Tree, function: Function) -> bool:
    """Whether the device sleeps; it is usable all the same, and wakes when it is used."""
    return (tree.read(f"{function.path}/power/runtime_status") or "").strip() == "suspended"


def address_of(device: str | None) -> str | None:
    """The PCI address of a device's folder, or None for what is on another bus."""
    name = "" if device is None else device.rpartition("/")[2]
    return name if _ADDRESS.fullmatch(name) else None


def _function(tree: Tree, address: str) -> Function | None:
    pci_class = hexadecimal(tree.read(f"{_DEVICES}/{address}/class"))
    if pci_class is None or pci_class >> 16 not in (_DISPLAY, _ACCELERATOR, _SIGNAL):
        return None
    path = tree.real(f"{_DEVICES}/{address}")
    if path is None:
        return None
    return Function(
        address=address,
        path=path,
        pci_class=pci_class,
        vendor=hexadecimal(tree.read(f"{path}/vendor")),
        device=hexadecimal(tree.read(f"{path}/device")),
        driver=driver_of(tree, path),
    )
