"""The GPU of a Windows host behind /dev/dxg. Of it the files say next to nothing."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host.access import closed
from lemonpod.host.gpus import Gpu, Vendor
from lemonpod.host.tree import Tree

DRIVER: Final = "dxgkrnl"
_NODE: Final = "/dev/dxg"
_KERNEL: Final = "microsoft"
# There with a Windows driver of NVIDIA's alone.
_CUDA: Final = "/usr/lib/wsl/lib/libcuda.so.1"
_NO_VULKAN: Final = "Windows shares it for CUDA and DirectX, not for Vulkan"
_UNKNOWN: Final = "its compute capability is unknown: no file of WSL says it"


def gpus(tree: Tree) -> list[Gpu]:
    """The GPU that Windows shares, if this is its subsystem for Linux."""
    if _KERNEL not in (tree.read("/proc/version") or "").lower() or tree.node(_NODE) is None:
        return []
    problem = closed(tree, [_NODE])
    nvidia = tree.real(_CUDA) is not None
    ways = {Accelerator.GPU: problem, Accelerator.VULKAN: problem or _NO_VULKAN}
    if nvidia:
        ways[Accelerator.CUDA] = problem or _UNKNOWN
    return [Gpu(vendor=Vendor.NVIDIA if nvidia else None, driver=DRIVER, ways=MappingProxyType(ways))]
