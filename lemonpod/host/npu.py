"""Neural processors: devices of the kernel's accel class on one of two drivers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from lemonpod.host.access import closed, here
from lemonpod.host.gpus import Npu, Vendor
from lemonpod.host.numbers import hexadecimal
from lemonpod.host.pci import AMD_CPU, INTEL, Function
from lemonpod.host.tree import Tree

_CLASS: Final = "/sys/class/accel"
_ACCEL: Final = re.compile(r"accel[0-9]+")
_DRIVERS: Final[Mapping[str, tuple[int, Vendor]]] = MappingProxyType(
    {"amdxdna": (AMD_CPU, Vendor.AMD), "intel_vpu": (INTEL, Vendor.INTEL)}
)
# By device and revision (amdxdna_pci_drv.c): the device alone does not tell chips apart.
_XDNA: Final[Mapping[tuple[int, int], str]] = MappingProxyType(
    {(0x1502, 0x00): "XDNA1", (0x17F0, 0x10): "XDNA2", (0x17F0, 0x11): "XDNA2", (0x17F0, 0x20): "XDNA2"}
)
_IDS: Final = frozenset(
    {(AMD_CPU, device) for device in (0x1502, 0x17F0, 0x17F1, 0x17F2, 0x17F3, 0x1B0A, 0x1B0B, 0x1B0C)}
    | {(INTEL, device) for device in (0x7D1D, 0xAD1D, 0x643E, 0xB03E)}
)


def is_npu(function: Function) -> bool:
    """Whether a function is an NPU by its ids: the class of Intel's is also that of big GPUs."""
    return (function.vendor, function.device) in _IDS


def find_npus(tree: Tree, functions: Iterable[Function]) -> tuple[Npu, ...]:
    """Every NPU that a driver has made a node for."""
    by_path = {function.path: function for function in functions}
    found = []
    for name in tree.names(_CLASS):
        device = tree.real(f"{_CLASS}/{name}/device") if _ACCEL.fullmatch(name) else None
        function = by_path.get(device or "")
        driver = function.driver if function else None
        if function is None or driver is None or driver not in _DRIVERS:
            continue
        maker, vendor = _DRIVERS[driver]
        if function.vendor != maker:
            continue
        revision = hexadecimal(tree.read(f"{function.path}/revision"))
        node = f"/dev/accel/{name}"
        found.append(
            Npu(
                vendor=vendor,
                driver=driver,
                arch=_arch(function, revision),
                name=(tree.read(f"{function.path}/vbnv") or "").strip() or None,
                pci_address=function.address,
                pci_id=function.pci_id,
                revision=revision,
                accel_node=here(tree, node),
                why_not=closed(tree, [node]),
            )
        )
    return tuple(found)


def _arch(function: Function, revision: int | None) -> str | None:
    if function.vendor != AMD_CPU or function.device is None or revision is None:
        return None
    return _XDNA.get((function.device, revision))
