"""The part of `/system-info` about this machine, in Lemonade's shape: what is unknown is left out."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from lemonpod.host.facts import HostFacts

_GIB: Final = 1 << 30
_FAMILIES: Final = {"aarch64": "arm64"}


class Machine:
    """The host's facts, which NVIDIA's own tool completes when somebody asks for the first time.

    It takes seconds where its driver was asleep, which no start of a server has to wait for.
    """

    def __init__(self, facts: HostFacts) -> None:
        self._facts = facts
        self._asked: asyncio.Task[HostFacts] | None = None

    async def facts(self) -> HostFacts:
        if self._asked is None:
            self._asked = asyncio.create_task(asyncio.to_thread(_completed, self._facts))
        return await asyncio.shield(self._asked)


def describe_machine(facts: HostFacts) -> dict[str, Any]:
    """System and devices, under the keys that clients demand."""
    memory = "" if facts.memory_bytes is None else f"{facts.memory_bytes / _GIB:.2f} GB"
    intel = _gpus(facts, "intel")
    return {
        "OS Version": facts.os_version or facts.os.value,
        "Processor": facts.cpu_name or "",
        "Physical Memory": memory,
        "devices": {
            "cpu": {
                "name": facts.cpu_name or "",
                "cores": facts.core_count or facts.cpu_count,
                "threads": facts.cpu_count,
                "available": True,
                "family": _FAMILIES.get(facts.machine or "", facts.machine),
            },
            "amd_gpu": _gpus(facts, "amd"),
            "nvidia_gpu": _gpus(facts, "nvidia"),
            "amd_npu": _npu(facts),
            **({"intel_gpu": intel} if intel else {}),  # Lemonade has no key for these
        },
    }


def _completed(facts: HostFacts) -> HostFacts:
    from lemonpod.host.nvidia_smi import asked

    return asked(facts)


def _gpus(facts: HostFacts, vendor: str) -> list[dict[str, Any]]:
    """Those of one maker, in the order of preference."""
    described = []
    for gpu in facts.gpus:
        if gpu.vendor != vendor:
            continue
        own = gpu.memory_bytes if gpu.vram_bytes is None else gpu.vram_bytes
        capability = (gpu.arch or "").removeprefix("sm_") if vendor == "nvidia" else ""
        known = {
            "name": gpu.name or str(gpu),
            "available": gpu.usable,
            "integrated": gpu.integrated,
            "family": gpu.arch or "",
            "vram_gb": _gigabytes(own),
            "virtual_mem_gb": _gigabytes(gpu.gtt_bytes),
            "index": gpu.index,
            "uuid": gpu.uuid,
            "compute_capability": f"{capability[:-1]}.{capability[-1:]}" if capability else None,
            "driver_version": gpu.driver_version,
            "error": gpu.why_not,
        }
        described.append({name: value for name, value in known.items() if value is not None})
    return described


def _npu(facts: HostFacts) -> dict[str, Any]:
    for npu in facts.npus:
        if npu.vendor == "amd":
            known = {
                "name": npu.name or "AMD NPU",
                "available": npu.usable,
                "family": npu.arch or "",
                "error": npu.why_not,
            }
            return {name: value for name, value in known.items() if value is not None}
    return {"name": "", "available": False, "family": ""}


def _gigabytes(size: int | None) -> float | None:
    return None if size is None else round(size / _GIB, 2)
