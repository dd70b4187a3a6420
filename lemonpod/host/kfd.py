"""AMD's compute driver: its nodes, what they are to a compiler, and the order ROCm counts them in.

A GPU is a node with a simd_count; the first nodes are processors, and an APU of before 2018 is both in one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lemonpod.host.access import opens
from lemonpod.host.numbers import properties
from lemonpod.host.tree import Tree

DEVICE: Final = "/dev/kfd"
_NODES: Final = "/sys/class/kfd/kfd/topology/nodes"
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_NO_MINOR: Final = -1
_MAX_HEX_DIGIT: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class KfdNode:
    """One GPU, or one partition of a GPU."""

    number: int
    arch: str | None
    domain: int
    location: int
    """Bus, device and function as 16 bits; the function counts partitions where there are such."""
    render_node: str | None
    unique_id: int
    with_processor: bool
    hip_index: int | None

    @property
    def address(self) -> str:
        return pci_address(self.domain, self.location)


def pci_address(domain: int, location: int) -> str:
    """The address as sysfs writes it."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def arch_name(version: int) -> str | None:
    """`gfx_target_version` as compilers write it: the last two places are hexadecimal digits.

    What would not fit into one digit is no version; 0 is a processor.
    """
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    if version <= 0 or minor > _MAX_HEX_DIGIT or step > _MAX_HEX_DIGIT:
        return None
    return f"gfx{major}{minor:x}{step:x}"


def gpu_nodes(tree: Tree) -> tuple[KfdNode, ...]:
    """The GPUs that this process is shown, in the order of ROCm.

    ROCm counts those whose render node it may open (topology.c of ROCR-Runtime), by number and not by name.
    """
    numbers = sorted(int(name) for name in tree.names(_NODES) if _NUMBER.fullmatch(name))
    found: list[KfdNode] = []
    for number in numbers:
        # A control group without the device lets the file be opened and refuses to read it.
        said = properties(tree.read(f"{_NODES}/{number}/properties"))
        if said.get("simd_count", 0) <= 0:
            continue
        minor = said.get("drm_render_minor", _NO_MINOR)
        render = f"/dev/dri/renderD{minor}" if minor > 0 else None
        counted = sum(node.hip_index is not None for node in found)
        version = said.get("gfx_target_version")  # old kernels do not say it
        found.append(
            KfdNode(
                number=number,
                arch=None if version is None else arch_name(version),
                domain=said.get("domain", 0),
                location=said.get("location_id", 0),
                render_node=render,
                unique_id=said.get("unique_id", 0),
                with_processor=said.get("cpu_cores_count", 0) > 0,
                hip_index=counted if opens(tree, render) else None,
            )
        )
    return tuple(found)


def forbidden(tree: Tree, nodes: tuple[KfdNode, ...]) -> str | None:
    """The render node that is there and may not be opened: one such, and ROCm starts for no GPU at all."""
    for node in nodes:
        if node.render_node and tree.node(node.render_node) and not opens(tree, node.render_node):
            return node.render_node
    return None


def memory_bytes(tree: Tree, node: KfdNode) -> int | None:
    """All that the node has of its own; heap types 1 and 2 are what processors see of it, and the rest."""
    banks = f"{_NODES}/{node.number}/mem_banks"
    sizes = []
    for bank in tree.names(banks):
        said = properties(tree.read(f"{banks}/{bank}/properties"))
        if said.get("heap_type") in (1, 2):
            sizes.append(said.get("size_in_bytes", 0))
    return sum(sizes) or None
