"""The machine as a value. An unknown fact is `None`, never a guess."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lemonpod.contract.vocabulary import Accelerator, Os

if TYPE_CHECKING:  # most machines that start a server have none of these
    from lemonpod.host.gpus import Gpu, Npu, PassedOver


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What launch plans depend on; `accelerators` and `gpus` are in the order of preference."""

    os: Os
    os_version: str | None
    machine: str | None
    cpu_name: str | None
    cpu_count: int | None
    memory_bytes: int | None
    accelerators: tuple[Accelerator, ...]
    rocm_arch: str | None = None
    cuda_arch: str | None = None
    core_count: int | None = None
    gpus: tuple[Gpu, ...] = ()
    npus: tuple[Npu, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()

    @property
    def arch(self) -> str | None:
        """The GPU architecture of this host, where no accelerator tells two kinds of GPU apart."""
        return self.rocm_arch or self.cuda_arch

    def arch_of(self, accelerator: Accelerator) -> str | None:
        """The architecture that arch overrides and aliases of a block for `accelerator` are looked up by.

        Where an accelerator fits GPUs of several makers, it is that of the GPU which is preferred for it.
        """
        match accelerator:
            case Accelerator.ROCM:
                return self.rocm_arch
            case Accelerator.CUDA:
                return self.cuda_arch
        return next((gpu.arch for gpu in self.gpus if gpu.offers(accelerator)), self.arch)
