"""The machine as a value. An unknown fact is `None`, never a guess."""

from __future__ import annotations

from dataclasses import dataclass

from lemonpod.contract.vocabulary import Accelerator, Os


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What launch plans depend on; `accelerators` are in the order of preference."""

    os: Os
    os_version: str | None
    machine: str
    cpu_name: str | None
    cpu_count: int | None
    memory_bytes: int | None
    accelerators: tuple[Accelerator, ...]
    rocm_arch: str | None = None
    cuda_arch: str | None = None

    @property
    def arch(self) -> str | None:
        """The GPU architecture that arch overrides and aliases are looked up by."""
        return self.rocm_arch or self.cuda_arch
