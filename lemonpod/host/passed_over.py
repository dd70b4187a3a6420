"""What looks like a GPU or an NPU and is not offered as one: adapters of servers and of virtual machines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from lemonpod.host.drm import Minors, render_path
from lemonpod.host.gpus import Gpu, Npu, PassedOver
from lemonpod.host.npu import is_npu
from lemonpod.host.nvidia import is_gpu
from lemonpod.host.pci import AMD, INTEL, NVIDIA, Function, address_of, driver_of
from lemonpod.host.tree import Tree
from lemonpod.host.wsl import DRIVER as WSL

_ADAPTERS: Final[Mapping[int, str]] = MappingProxyType(
    {
        0x1A03: "the display of a server's management processor",
        0x102B: "the display of a server's management processor",
        0x1234: "a virtual display adapter",
        0x15AD: "a virtual display adapter",
        0x1AF4: "a virtual display adapter",
        0x1B36: "a virtual display adapter",
        0x1414: "a virtual display adapter",
    }
)
_MAKERS: Final = frozenset({AMD, INTEL, NVIDIA})
_VFIO: Final = "vfio"


def passed_over(
    tree: Tree,
    functions: Sequence[Function],
    minors: Mapping[str, Minors],
    gpus: Collection[Gpu],
    npus: Collection[Npu],
) -> tuple[PassedOver, ...]:
    """All of it but what is offered: `gpus` and `npus`."""
    taken = {gpu.pci_address for gpu in gpus} | {npu.pci_address for npu in npus}
    partitions = {gpu.render_node for gpu in gpus}
    found = []
    for function in functions:
        if function.address in taken or function.driver == WSL:
            continue
        if (why := _why(function)) is not None:
            names = " ".join(str(minors[path]) for path in minors if _is_of(path, function))
            what = f"{function.address} {function.pci_id}"
            found.append(PassedOver(f"{what} ({names})" if names else what, why))
    for path, has in sorted(minors.items(), key=lambda one: str(one[1])):
        render = render_path(has)
        if address_of(path) is not None or (render is not None and render in partitions):
            continue
        if not any(_is_of(path, function) for function in functions):
            driver = driver_of(tree, path) or path.rpartition("/")[2]
            found.append(PassedOver(str(has), f"a device of {driver}, on no PCI bus"))
    return tuple(found)


def _is_of(path: str, function: Function) -> bool:
    """Whether a device is the function, or is below it, as one of virtio is since Linux 6.1."""
    return path == function.path or path.startswith(f"{function.path}/")


def _why(function: Function) -> str | None:
    if is_npu(function):
        kind = "an NPU"
    elif is_gpu(function) or (function.is_display and function.vendor in _MAKERS):
        kind = "a GPU"
    elif function.is_display:
        return _ADAPTERS.get(function.vendor or 0, "a display adapter of no maker of GPUs")
    else:
        return None
    if function.driver is None:
        return f"{kind} without a driver"
    if function.driver.startswith(_VFIO):
        return f"{kind} that {function.driver} keeps for a virtual machine"
    return f"{kind} on {function.driver}, a driver that engines do not compute with"
