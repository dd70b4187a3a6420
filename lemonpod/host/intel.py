"""Intel's GPUs, on either of their drivers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host.access import closed, here
from lemonpod.host.drm import Minors, render_path
from lemonpod.host.gpus import Gpu, MemoryKind, Vendor
from lemonpod.host.numbers import size
from lemonpod.host.pci import INTEL, Function, is_suspended
from lemonpod.host.tree import Tree

DRIVERS: Final = frozenset({"i915", "xe"})
_PART_OF_THE_PROCESSOR: Final = "0000:00:02.0"  # cards are behind a bridge of their own
_TILE: Final = re.compile(r"tile[0-9]+")


def gpus(tree: Tree, functions: Iterable[Function], minors: Mapping[str, Minors]) -> list[Gpu]:
    """Every GPU; what architecture they have nobody asks, as manifests have no name for it."""
    found = []
    for function in functions:
        if function.vendor != INTEL or function.driver not in DRIVERS or not function.is_display:
            continue
        integrated = function.address == _PART_OF_THE_PROCESSOR
        has = minors.get(function.path)
        render = render_path(has)
        problem = closed(tree, [render]) if render else "it has no render node"
        found.append(
            Gpu(
                vendor=Vendor.INTEL,
                driver=function.driver,
                pci_address=function.address,
                pci_id=function.pci_id,
                render_node=here(tree, render),
                memory_bytes=None if integrated else _memory(tree, function, has),
                memory_kind=MemoryKind.UNIFIED if integrated else MemoryKind.DEDICATED,
                integrated=integrated,
                suspended=is_suspended(tree, function),
                ways=MappingProxyType({Accelerator.VULKAN: problem, Accelerator.GPU: problem}),
            )
        )
    return found


def _memory(tree: Tree, function: Function, has: Minors | None) -> int | None:
    """The drivers of the kernel do not say it; those that Intel ships besides do, each in its way."""
    tiles = [name for name in tree.names(function.path) if _TILE.fullmatch(name)]
    sizes = [size(tree.read(f"{function.path}/{tile}/physical_vram_size_bytes")) for tile in tiles]
    known = [one for one in sizes if one is not None]
    if known and len(known) == len(sizes):
        return sum(known)
    card = has.card if has else None
    return size(tree.read(f"{function.path}/drm/{card}/lmem_total_bytes")) if card else None
