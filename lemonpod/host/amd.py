"""AMD's GPUs: those that amdgpu drives, with what their compute driver says of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host import kfd
from lemonpod.host.access import closed, here
from lemonpod.host.drm import Minors, render_path
from lemonpod.host.gpus import Gpu, MemoryKind, Vendor
from lemonpod.host.kfd import KfdNode, arch_name
from lemonpod.host.numbers import decimal, hexadecimal, size
from lemonpod.host.pci import AMD, Function, is_suspended
from lemonpod.host.tree import Tree

DRIVER: Final = "amdgpu"

# What the kernel sets AMD_IS_APU for (amdgpu_discovery.c), and two APUs of before that switch.
_APUS: Final = re.compile(r"gfx(?:700|801|902|909|90c|1013|1033|1035|1036|1103|115.)")
_APU_AND_CARD: Final = "gfx942"  # MI300A and MI300X
# From here on `board_info` is there for every card, so that its absence means an APU. It may be older.
_BOARD_INFO_SINCE: Final = (6, 6)
_NO_MAKER: Final = "unknown"

# From versions of the graphics block (ip_discovery) to `gfx_target_version`, as kfd_device.c has it: what a
# compiler calls a chip is often not the number of its block.
_OF_BLOCKS: Final[Mapping[tuple[int, ...], int]] = MappingProxyType(
    {
        (9, 0, 1): 90000,
        (9, 1, 0): 90002,
        (9, 2, 1): 90004,
        (9, 2, 2): 90002,
        (9, 3, 0): 90012,
        (9, 4, 0): 90006,
        (9, 4, 1): 90008,
        (9, 4, 2): 90010,
        (9, 4, 3): 90402,
        (9, 4, 4): 90402,
        (9, 5, 0): 90500,
        (10, 1, 1): 100102,
        (10, 1, 2): 100101,
        (10, 1, 3): 100103,
        (10, 1, 4): 100103,
        (10, 1, 10): 100100,
        (10, 3, 0): 100300,
        (10, 3, 1): 100303,
        (10, 3, 2): 100301,
        (10, 3, 3): 100305,
        (10, 3, 4): 100302,
        (10, 3, 5): 100304,
        (10, 3, 6): 100306,
        (10, 3, 7): 100306,
        (11, 0, 0): 110000,
        (11, 0, 1): 110003,
        (11, 0, 2): 110002,
        (11, 0, 3): 110001,
        (11, 0, 4): 110003,
        (11, 5, 0): 110500,
        (11, 5, 1): 110501,
        (11, 5, 2): 110502,
        (11, 5, 3): 110503,
        (12, 0, 0): 120000,
        (12, 0, 1): 120001,
    }
)


def gpus(
    tree: Tree,
    functions: Iterable[Function],
    minors: Mapping[str, Minors],
    kernel: tuple[int, int] | None,
) -> list[Gpu]:
    """Every GPU, and of one that is split every partition: each is a device to ROCm."""
    ours = [one for one in functions if one.vendor == AMD and one.driver == DRIVER]
    if not ours:
        return []
    nodes = kfd.gpu_nodes(tree)
    barred = kfd.forbidden(tree, nodes)
    found: list[Gpu] = []
    for function in ours:
        parts = [node for node in nodes if _belongs(node, function, ours, minors)]
        split = len(parts) > 1
        found += [_gpu(tree, function, part, split, minors, kernel, barred) for part in parts or (None,)]
    return found


def _belongs(
    node: KfdNode, function: Function, all_of_them: list[Function], minors: Mapping[str, Minors]
) -> bool:
    """Whether a node of kfd is this function or a partition of it, which counts as a function of its own."""
    same = node.address == function.address
    if not same and any(node.address == other.address for other in all_of_them):
        return False
    if node.address[:-1] != function.address[:-1]:
        return False
    # Both drivers must mean the same device, or what they say is of no use together.
    owners = {path for path, has in minors.items() if render_path(has) == node.render_node}
    return not owners & {other.path for other in all_of_them if other is not function}


def _gpu(
    tree: Tree,
    function: Function,
    node: KfdNode | None,
    split: bool,
    minors: Mapping[str, Minors],
    kernel: tuple[int, int] | None,
    barred: str | None,
) -> Gpu:
    path = function.path
    render = node.render_node if node else None
    render = render or render_path(minors.get(path))
    arch, source = _arch(tree, path, node)
    integrated = _integrated(tree, path, node, arch, kernel)
    vram, gtt = (size(tree.read(f"{path}/mem_info_{kind}_total")) for kind in ("vram", "gtt"))
    memory, kind = _memory(vram, gtt, integrated)
    if split and node:
        memory = kfd.memory_bytes(tree, node)
    return Gpu(
        vendor=Vendor.AMD,
        driver=DRIVER,
        arch=arch,
        arch_source=source,
        name=(tree.read(f"{path}/product_name") or "").strip() or None,
        pci_address=function.address,
        pci_id=function.pci_id,
        render_node=here(tree, render),
        memory_bytes=memory,
        memory_kind=kind,
        integrated=integrated,
        vram_bytes=vram,
        gtt_bytes=gtt,
        kfd_node=node.number if node else None,
        hip_index=node.hip_index if node else None,
        uuid=None if split else _uuid(tree, path, node),
        suspended=is_suspended(tree, function),
        ways=_ways(tree, render, node, barred),
    )


def _ways(
    tree: Tree, render: str | None, node: KfdNode | None, barred: str | None
) -> Mapping[Accelerator, str | None]:
    if render is None:
        problem: str | None = "it has no render node"
        rocm = problem
    else:
        problem = closed(tree, [render])
        rocm = closed(tree, [kfd.DEVICE, render])
    if rocm is None and (node is None or node.arch is None):
        rocm = "its architecture is unknown, as amdkfd does not say it"
    if rocm is None and barred is not None:
        rocm = f"{barred} may not be opened, and ROCm starts for all of its GPUs or for none"
    if problem is not None:
        problem = rocm  # says both where both are missing
    return MappingProxyType({Accelerator.ROCM: rocm, Accelerator.VULKAN: problem, Accelerator.GPU: problem})


def _arch(tree: Tree, path: str, node: KfdNode | None) -> tuple[str | None, str | None]:
    if node and node.arch:
        return node.arch, "kfd"
    block = f"{path}/ip_discovery/die/0/GC/0"
    numbers = [decimal(tree.read(f"{block}/{part}")) for part in ("major", "minor", "revision")]
    version = _OF_BLOCKS.get(tuple(number for number in numbers if number is not None))
    return (None, None) if version is None else (arch_name(version), "ip_discovery")


def _integrated(
    tree: Tree, path: str, node: KfdNode | None, arch: str | None, kernel: tuple[int, int] | None
) -> bool | None:
    if tree.real(f"{path}/board_info") is not None:  # hidden for APUs alone (amdgpu_device.c)
        return False
    if (node and node.with_processor) or (kernel and kernel >= _BOARD_INFO_SINCE):
        return True
    if arch is not None and arch != _APU_AND_CARD:
        return _APUS.fullmatch(arch) is not None
    # An APU's memory has no maker of its own: no such file, or on older kernels this word.
    maker = (tree.read(f"{path}/mem_info_vram_vendor") or "").strip()
    return None if maker in ("", _NO_MAKER) else False


def _memory(vram: int | None, gtt: int | None, integrated: bool | None) -> tuple[int | None, MemoryKind]:
    """An APU computes in what was carved out for it and in what it may map of the machine's."""
    if integrated is None:
        return None, MemoryKind.UNKNOWN
    if not integrated:
        return vram, MemoryKind.DEDICATED
    return (None if vram is None or gtt is None else vram + gtt), MemoryKind.UNIFIED


def _uuid(tree: Tree, path: str, node: KfdNode | None) -> str | None:
    """ROCm's name for it; many, and all APUs, have the number 0 and so no name."""
    number = node.unique_id if node else hexadecimal(tree.read(f"{path}/unique_id"))
    return f"GPU-{number:016x}" if number and number > 0 else None
