"""Which GPU comes first, what accelerators follow from the GPUs that are there, and why one does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host.facts import HostFacts

if TYPE_CHECKING:
    from lemonpod.host.gpus import Gpu

LOOKED_FOR: Final = (
    Accelerator.CUDA,
    Accelerator.ROCM,
    Accelerator.VULKAN,
    Accelerator.GPU,
    Accelerator.NPU,
)
"""Of the accelerators, those whose absence is a fact."""

# RFC section 9. NPUs are never chosen by themselves: a model asks for one, by its option 'device'.
_ORDER: Final = (Accelerator.CUDA, Accelerator.ROCM, Accelerator.VULKAN, Accelerator.GPU)
_VENDORS: Final[Mapping[str | None, int]] = MappingProxyType({"nvidia": 0, "amd": 1, "intel": 2, None: 3})
_NONE: Final[Mapping[Accelerator, str]] = MappingProxyType(
    {
        Accelerator.CUDA: "no NVIDIA GPU with its driver was found",
        Accelerator.ROCM: "no AMD GPU with its driver was found",
        Accelerator.VULKAN: "no GPU with a driver was found",
        Accelerator.GPU: "no GPU with a driver was found",
        Accelerator.METAL: "only Macs have it",
    }
)
_LAST: Final = 1 << 30


def with_gpus(facts: HostFacts, gpus: Iterable[Gpu]) -> HostFacts:
    """The facts of a host that has these GPUs, with all that follows from them."""
    ordered = tuple(sorted(gpus, key=_rank))
    gpu_ways = (way for way in _ORDER if any(gpu.offers(way) for gpu in ordered))
    rocm, cuda = rocm_gpu(ordered), cuda_gpu(ordered)
    return replace(
        facts,
        gpus=ordered,
        accelerators=(*gpu_ways, Accelerator.CPU),
        rocm_arch=rocm.arch if rocm else None,
        cuda_arch=cuda.arch if cuda else None,
    )


def rocm_gpu(gpus: Iterable[Gpu]) -> Gpu | None:
    """The GPU that ROCm engines are for: the first that they can use, else the first that is known."""
    known = [gpu for gpu in gpus if Accelerator.ROCM in gpu.ways and gpu.arch]
    return next((gpu for gpu in known if gpu.offers(Accelerator.ROCM)), known[0] if known else None)


def cuda_gpu(gpus: Iterable[Gpu]) -> Gpu | None:
    """The same for CUDA; as Lemonade does, the newest architecture of several."""
    known = [gpu for gpu in gpus if Accelerator.CUDA in gpu.ways and gpu.arch]
    usable = [gpu for gpu in known if gpu.offers(Accelerator.CUDA)]
    return max(usable or known, key=lambda gpu: _capability(gpu.arch), default=None)


def lacks_an_architecture(facts: HostFacts) -> bool:
    """Whether plans for an NVIDIA GPU must do without its architecture, which its own tool may know."""
    return any(gpu.usable and gpu.arch is None and Accelerator.CUDA in gpu.ways for gpu in facts.gpus)


def missing(facts: HostFacts, accelerator: Accelerator) -> str | None:
    """The fact that keeps engines from an accelerator; None where none does, or nobody looks for it."""
    if accelerator in facts.accelerators:
        return None
    if accelerator is Accelerator.NPU:
        problems = [f"{npu.name or npu.pci_id} at {npu.pci_address}: {npu.why_not}" for npu in facts.npus]
        if any(npu.usable for npu in facts.npus):
            return None
        return "; ".join(problems) or "no NPU with a driver was found"
    reasons = [f"{gpu}: {gpu.ways[accelerator]}" for gpu in facts.gpus if accelerator in gpu.ways]
    if reasons or accelerator not in _NONE:
        return "; ".join(reasons) or None
    others = "; ".join(f"{one.what} is {one.why}" for one in facts.passed_over)
    return (
        f"{_NONE[accelerator]} ({others})"
        if others and accelerator is not Accelerator.METAL
        else _NONE[accelerator]
    )


def found(facts: HostFacts, accelerator: Accelerator) -> str:
    """What an accelerator is offered for."""
    gpus = ", ".join(str(gpu) for gpu in facts.gpus if gpu.offers(accelerator))
    every = "every Mac has it" if accelerator is Accelerator.METAL else "every machine has it"
    return gpus or every


def _rank(gpu: Gpu) -> tuple[bool, int, int, str]:
    """Cards before what is part of a processor, which they are there in place of."""
    hip = _LAST if gpu.hip_index is None else gpu.hip_index
    return gpu.integrated is True, _VENDORS[gpu.vendor], hip, gpu.pci_address or ""


def _capability(arch: str | None) -> int:
    digits = (arch or "").removeprefix("sm_")
    return int(digits) if digits.isdecimal() else 0
