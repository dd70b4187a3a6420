"""NVIDIA's GPUs on PCI, from the functions that its driver or nouveau is bound to.

Not from /sys/class/drm: without nvidia-drm nothing is there. Not from /proc/driver/nvidia: a container has
none of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host.access import closed, here, opens
from lemonpod.host.drm import Minors, render_path
from lemonpod.host.gpus import Gpu, MemoryKind, Vendor
from lemonpod.host.numbers import decimal
from lemonpod.host.nvidia_ids import compute_arch, is_integrated
from lemonpod.host.pci import NVIDIA, Function, address_of, is_suspended
from lemonpod.host.tree import Tree

DRIVER: Final = "nvidia"
NOUVEAU: Final = "nouveau"
_PROC: Final = "/proc/driver/nvidia"
_CONTROL: Final = "/dev/nvidiactl"
# The driver's own list (nv-pci-table.c); its other functions are audio, USB and switches.
_CLASSES: Final = frozenset({0x0300, 0x0302})
_VERSION: Final = re.compile(r"\b[0-9]+\.[0-9]+(?:\.[0-9]+)?\b")
_UUID: Final = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NODE: Final = re.compile(r"nvidia[0-9]+")


@dataclass(frozen=True, slots=True)
class _Information:
    """What the driver says of one GPU; before the first use of a GPU it does not know its UUID."""

    name: str | None = None
    uuid: str | None = None
    index: int | None = None


def is_gpu(function: Function) -> bool:
    """Whether an NVIDIA function is a GPU, whatever drives it."""
    return function.vendor == NVIDIA and function.pci_class >> 8 in _CLASSES


def gpus(
    tree: Tree, functions: Iterable[Function], minors: Mapping[str, Minors], memory: int | None
) -> list[Gpu]:
    """Every GPU; `memory` is the machine's, which integrated ones compute in."""
    ours = [one for one in functions if is_gpu(one) and one.driver in (DRIVER, NOUVEAU)]
    told = {one.address: _information(tree, one.address) for one in ours if one.driver == DRIVER}
    # Where a container hides /sys, the driver may still name its GPUs, though not what they are.
    hidden = [
        name
        for name in tree.names(f"{_PROC}/gpus")
        if address_of(name) and name not in told and tree.real(f"{_PROC}/gpus/{name}") is not None
    ]
    told |= {address: _information(tree, address) for address in hidden}
    taken = {f"/dev/nvidia{one.index}" for one in told.values() if one.index is not None}
    found = []
    for function in ours:
        render = render_path(minors.get(function.path))
        gpu = replace(
            _known_by_id(function, memory),
            render_node=here(tree, render),
            suspended=is_suspended(tree, function),
            ways=_ways_of_nouveau(tree, render),
        )
        found.append(gpu if function.driver == NOUVEAU else _told(tree, gpu, told[function.address], taken))
    for address in hidden:
        gpu = Gpu(vendor=Vendor.NVIDIA, driver=DRIVER, pci_address=address)
        found.append(_told(tree, gpu, told[address], taken))
    return found


def _known_by_id(function: Function, memory: int | None) -> Gpu:
    arch = compute_arch(function.device)
    integrated = is_integrated(arch)
    return Gpu(
        vendor=Vendor.NVIDIA,
        driver=function.driver or "",
        arch=arch,
        arch_source="pci_table" if arch else None,
        pci_address=function.address,
        pci_id=function.pci_id,
        memory_bytes=memory if integrated else None,
        memory_kind=_kind(integrated),
        integrated=integrated,
    )


def _told(tree: Tree, gpu: Gpu, information: _Information, taken: set[str]) -> Gpu:
    """The GPU with what its driver says of it, and who may use it."""
    return replace(
        gpu,
        name=information.name,
        uuid=information.uuid,
        index=information.index,
        driver_version=driver_version(tree),
        ways=_ways(_closed(tree, information, taken), gpu.arch),
    )


def driver_version(tree: Tree) -> str | None:
    """Of the loaded driver: in the open one's line other numbers come after it."""
    for path in (f"{_PROC}/version", "/sys/module/nvidia/version"):
        if match := _VERSION.search(tree.read(path) or ""):
            return match[0]
    return None


def _closed(tree: Tree, information: _Information, taken: set[str]) -> str | None:
    """What is missing of the driver's nodes. Which node is whose is unknown in a container without /proc."""
    if information.index is not None:
        return closed(tree, [_CONTROL, f"/dev/nvidia{information.index}"])
    nodes = [f"/dev/{name}" for name in tree.names("/dev") if _NODE.fullmatch(name)]
    free = [node for node in nodes if node not in taken]
    if not free:
        absent = "no /dev/nvidiaN of its own here"
        return absent if opens(tree, _CONTROL) else f"{closed(tree, [_CONTROL])}; {absent}"
    usable = [node for node in free if opens(tree, node)]
    return closed(tree, [_CONTROL, *(usable or free)])


def _ways(problem: str | None, arch: str | None) -> Mapping[Accelerator, str | None]:
    cuda = problem
    if cuda is None and arch is None:
        cuda = "its compute capability is unknown: no table here has its PCI id"
    return MappingProxyType({Accelerator.CUDA: cuda, Accelerator.VULKAN: problem, Accelerator.GPU: problem})


def _ways_of_nouveau(tree: Tree, render: str | None) -> Mapping[Accelerator, str | None]:
    problem = closed(tree, [render]) if render else "it has no render node"
    cuda = "the driver is nouveau, and CUDA needs NVIDIA's"
    return MappingProxyType({Accelerator.CUDA: cuda, Accelerator.VULKAN: problem, Accelerator.GPU: problem})


def _kind(integrated: bool | None) -> MemoryKind:
    if integrated is None:
        return MemoryKind.UNKNOWN
    return MemoryKind.UNIFIED if integrated else MemoryKind.DEDICATED


def _information(tree: Tree, address: str) -> _Information:
    lines = (tree.read(f"{_PROC}/gpus/{address}/information") or "").splitlines()
    said = {
        name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon
    }
    uuid = said.get("GPU UUID", "")
    return _Information(
        name=said.get("Model") or None,
        uuid=uuid if _UUID.fullmatch(uuid) else None,
        index=decimal(said.get("Device Minor")),
    )
