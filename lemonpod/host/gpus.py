"""What computes beside the processor, as values. An unknown fact is `None`, never a guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from lemonpod.contract.vocabulary import Accelerator


class Vendor(StrEnum):
    AMD = "amd"
    INTEL = "intel"
    NVIDIA = "nvidia"

    @property
    def label(self) -> str:
        """Its name as it writes it."""
        return self.capitalize() if self is Vendor.INTEL else self.upper()


class MemoryKind(StrEnum):
    """Whose memory a GPU computes in: its own, or the machine's."""

    DEDICATED = "dedicated"
    UNIFIED = "unified"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A graphics processor with a driver that engines compute on.

    `ways` are the accelerators that GPUs of its kind are used as, each with what is missing for it here.
    """

    vendor: Vendor | None
    driver: str
    arch: str | None = None
    """As compilers name it: gfx1151, sm_90."""
    arch_source: str | None = None
    name: str | None = None
    pci_address: str | None = None
    pci_id: str | None = None
    render_node: str | None = None
    memory_bytes: int | None = None
    memory_kind: MemoryKind = MemoryKind.UNKNOWN
    integrated: bool | None = None
    vram_bytes: int | None = None
    gtt_bytes: int | None = None
    """What of the machine's memory an AMD GPU can map."""
    kfd_node: int | None = None
    hip_index: int | None = None
    """Its place in ROCm's order, which is not the order of PCI or of render nodes."""
    uuid: str | None = None
    """What CUDA_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES name it by."""
    index: int | None = None
    """N of NVIDIA's /dev/nvidiaN."""
    driver_version: str | None = None
    suspended: bool = False
    ways: Mapping[Accelerator, str | None] = field(
        default_factory=lambda: MappingProxyType({Accelerator.GPU: None})
    )

    @property
    def why_not(self) -> str | None:
        """Why no engine of this user can compute on it at all."""
        return self.ways[Accelerator.GPU]

    @property
    def usable(self) -> bool:
        return self.why_not is None

    def offers(self, accelerator: Accelerator) -> bool:
        """Whether an engine of this user can compute on it that way."""
        return accelerator in self.ways and self.ways[accelerator] is None

    def __str__(self) -> str:
        what = self.name or f"{self.vendor.label if self.vendor else 'unknown'} GPU"
        where = self.pci_address or self.driver
        return f"{what} at {where}" if self.arch is None else f"{what} ({self.arch}) at {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Npu:
    """A neural processor with a driver."""

    vendor: Vendor
    driver: str
    arch: str | None
    name: str | None
    pci_address: str
    pci_id: str
    revision: int | None
    accel_node: str | None
    why_not: str | None = None

    @property
    def usable(self) -> bool:
        return self.why_not is None


@dataclass(frozen=True, slots=True)
class PassedOver:
    """What looks like a GPU or an NPU, and why it is not offered as one."""

    what: str
    why: str
