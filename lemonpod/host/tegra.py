"""The GPU of NVIDIA's Jetson modules: on no PCI bus, and no part of /proc/driver/nvidia."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host.access import closed
from lemonpod.host.gpus import Gpu, MemoryKind, Vendor
from lemonpod.host.nvidia import driver_version
from lemonpod.host.tree import Tree

_DRIVER: Final = "gk20a"  # nvgpu registers under the name of its first chip
_BOUND: Final = f"/sys/bus/platform/drivers/{_DRIVER}"
_NODES: Final = ("/dev/nvhost-gpu", "/dev/nvmap")
_ARCHES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nvidia,tegra234": "sm_87",
        "nvidia,tegra194": "sm_72",
        "nvidia,tegra186": "sm_62",
        "nvidia,tegra210": "sm_53",
    }
)


def gpus(tree: Tree, memory: int | None) -> list[Gpu]:
    """The GPU of this module, if it is one; `memory` is the machine's, which it computes in."""
    bound = [name for name in tree.names(_BOUND) if tree.real(f"{_BOUND}/{name}/uevent") is not None]
    if not bound:
        return []
    compatible = (tree.read("/proc/device-tree/compatible") or "").split("\0")
    arch = next((_ARCHES[chip] for chip in compatible if chip in _ARCHES), None)
    problem = closed(tree, _NODES)
    unknown = None if arch else "its compute capability is unknown: no table here has its chip"
    return [
        Gpu(
            vendor=Vendor.NVIDIA,
            driver=_DRIVER,
            arch=arch,
            arch_source="device_tree" if arch else None,
            memory_bytes=memory,
            memory_kind=MemoryKind.UNIFIED,
            integrated=True,
            driver_version=driver_version(tree),
            ways=MappingProxyType(
                {
                    Accelerator.CUDA: problem or unknown,
                    Accelerator.VULKAN: problem,
                    Accelerator.GPU: problem,
                }
            ),
        )
    ]
