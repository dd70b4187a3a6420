"""How full the memories are that engines compute in, now. What cannot be told is left out, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host import amd, linux, nvidia, wsl
from lemonpod.host.facts import HostFacts
from lemonpod.host.gpus import Gpu, MemoryKind, Vendor
from lemonpod.host.numbers import decimal
from lemonpod.host.nvidia_smi import memory_shares
from lemonpod.host.tree import Folder, Tree

_OF_THE_MACHINE: Final = frozenset({Accelerator.CPU, Accelerator.NPU})
_DEVICES: Final = "/sys/bus/pci/devices"


def fullness(
    facts: HostFacts,
    accelerators: Iterable[Accelerator],
    *,
    tree: Tree | None = None,
    ask: Callable[[], Mapping[str, float]] = memory_shares,
) -> dict[Accelerator, float]:
    """The share in use, from 0 to 1, of the memory behind each accelerator. Blocks: `ask` is a process.

    Of several GPUs that offer an accelerator the fullest counts: which one an engine takes is its own affair.
    """
    tree = tree or Folder()
    wanted = {
        accelerator: [gpu for gpu in facts.gpus if gpu.offers(accelerator)] for accelerator in accelerators
    }
    cards = [gpu for gpus in wanted.values() for gpu in gpus if _is_nvidias_card(gpu)]
    # The tool would wake those that sleep, and an engine is on none of them.
    told = ask() if cards and not any(_sleeps(tree, gpu) for gpu in cards) else {}
    machine = linux.memory_share(tree)
    found: dict[Accelerator, float] = {}
    for accelerator, gpus in wanted.items():
        in_machine = accelerator in _OF_THE_MACHINE
        shares = [machine] if in_machine else [_share(tree, gpu, told, machine) for gpu in gpus]
        if known := [share for share in shares if share is not None]:
            found[accelerator] = max(known)
    return found


def _share(tree: Tree, gpu: Gpu, told: Mapping[str, float], machine: float | None) -> float | None:
    if gpu.driver == amd.DRIVER:
        return _of_amdgpu(tree, gpu)
    if gpu.memory_kind is MemoryKind.UNIFIED:
        return machine
    if not _is_nvidias_card(gpu):
        return None
    # Windows hides addresses: what its tool tells of is all that is shared with this system.
    return max(told.values(), default=None) if gpu.driver == wsl.DRIVER else told.get(gpu.pci_address or "")


def _of_amdgpu(tree: Tree, gpu: Gpu) -> float | None:
    """A card has memory of its own. A GPU that is part of the processor has what was carved out for it and
    what it may map: Vulkan takes both together, ROCm the larger, and the fuller of these counts."""
    vram, gtt = (_pool(tree, gpu, kind) for kind in ("vram", "gtt"))
    match gpu.memory_kind:
        case MemoryKind.DEDICATED if vram is not None:
            return vram[0] / vram[1]
        case MemoryKind.UNIFIED if vram is not None and gtt is not None:
            both, larger = (vram[0] + gtt[0]) / (vram[1] + gtt[1]), max(vram, gtt, key=lambda pool: pool[1])
            return max(both, larger[0] / larger[1])
    return None


def _pool(tree: Tree, gpu: Gpu, kind: str) -> tuple[int, int] | None:
    """What of it is used, and all of it."""
    used, total = (
        decimal(tree.read(f"{_DEVICES}/{gpu.pci_address}/mem_info_{kind}_{what}"))
        for what in ("used", "total")
    )
    return (used, total) if used is not None and total and 0 <= used <= total else None


def _is_nvidias_card(gpu: Gpu) -> bool:
    """Whose memory its own tool alone can tell of."""
    by_tool = gpu.driver in (nvidia.DRIVER, wsl.DRIVER) and gpu.vendor is Vendor.NVIDIA
    return by_tool and gpu.memory_kind is not MemoryKind.UNIFIED


def _sleeps(tree: Tree, gpu: Gpu) -> bool:
    return (tree.read(f"{_DEVICES}/{gpu.pci_address}/power/runtime_status") or "").strip() == "suspended"
