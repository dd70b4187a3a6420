"""What NVIDIA's own tool adds to the files: memory, and the architecture where no table has it.

A helper alone: it may be absent, slow or broken, and it wakes GPUs that sleep. Nothing waits for it but what
needs one of these facts.
"""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host.choice import with_gpus
from lemonpod.host.facts import HostFacts
from lemonpod.host.gpus import Gpu, MemoryKind, Vendor
from lemonpod.host.numbers import decimal, size
from lemonpod.host.nvidia import DRIVER
from lemonpod.host.wsl import DRIVER as WSL

# Programs that only root writes: PATH may lead anywhere.
_PROGRAMS: Final = ("/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi", "/usr/local/bin/nvidia-smi")
_FIELDS: Final = "pci.bus_id,uuid,name,compute_cap,driver_version,memory.total"
_USE: Final = "pci.bus_id,memory.used,memory.total"
_MIB: Final = 1 << 20
_LAST_MOMENT: Final = 1.0
_TIMEOUT: Final = 5.0
"""Seconds. A driver that initialises its GPUs for this takes two or three."""
_AWAKE_TIMEOUT: Final = 2.0
"""Of one whose GPUs are in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One GPU as nvidia-smi knows it; what it does not know is None."""

    pci_address: str
    uuid: str | None
    name: str | None
    arch: str | None
    driver_version: str | None
    memory_bytes: int | None


def asked(facts: HostFacts, *, programs: Iterable[str] = _PROGRAMS, timeout: float = _TIMEOUT) -> HostFacts:
    """The facts with what the tool adds to them; as they are where nothing is missing or nothing is said."""
    wanting = [gpu for gpu in facts.gpus if _is_nvidia(gpu) and gpu.usable and _has_gaps(gpu)]
    if not wanting or any(gpu.suspended for gpu in wanting):
        return facts
    return completed(facts, answers(_table(_FIELDS, programs, timeout)))


def answers(output: str) -> tuple[Answer, ...]:
    """The lines of its table that have all the columns."""
    found = (_answer(*row) for row in _rows(output, _FIELDS))
    return tuple(one for one in found if one)


def memory_shares(
    *, programs: Iterable[str] = _PROGRAMS, timeout: float = _AWAKE_TIMEOUT
) -> Mapping[str, float]:
    """How full the memory of each GPU is, from 0 to 1, by PCI address, as far as the tool says it."""
    shares: dict[str, float] = {}
    for address, used, total in _rows(_table(_USE, programs, timeout), _USE):
        pci_address, occupied, whole = _address(address), decimal(used), size(total)
        if pci_address and occupied is not None and whole and 0 <= occupied <= whole:
            shares[pci_address] = occupied / whole
    return shares


def completed(facts: HostFacts, found: Iterable[Answer]) -> HostFacts:
    """The facts with their gaps filled, GPUs being told apart by address: orders differ from tool to tool."""
    by_address = {one.pci_address: one for one in found}
    gpus: list[Gpu] = []
    for gpu in facts.gpus:
        if gpu.driver == WSL and gpu.vendor is Vendor.NVIDIA:
            # Windows hides addresses, so these are all of them, and its own is none of this system's.
            gpus += [_filled(gpu, one) for one in by_address.values()] or [gpu]
        elif _is_nvidia(gpu) and gpu.pci_address in by_address:
            gpus.append(_filled(gpu, by_address[gpu.pci_address]))
        else:
            gpus.append(gpu)
    return with_gpus(facts, gpus)


def _is_nvidia(gpu: Gpu) -> bool:
    return gpu.vendor is Vendor.NVIDIA and gpu.driver in (DRIVER, WSL)


def _has_gaps(gpu: Gpu) -> bool:
    return gpu.arch is None or gpu.memory_bytes is None


def _filled(gpu: Gpu, answer: Answer) -> Gpu:
    arch = gpu.arch or answer.arch
    memory = gpu.memory_bytes or answer.memory_bytes
    dedicated = gpu.memory_kind is MemoryKind.UNKNOWN and answer.memory_bytes is not None
    return replace(
        gpu,
        arch=arch,
        arch_source=gpu.arch_source or ("nvidia-smi" if answer.arch else None),
        name=gpu.name or answer.name,
        uuid=gpu.uuid or answer.uuid,
        driver_version=gpu.driver_version or answer.driver_version,
        memory_bytes=memory,
        memory_kind=MemoryKind.DEDICATED if dedicated else gpu.memory_kind,
        ways=_ways(gpu.ways, arch),
    )


def _ways(ways: Mapping[Accelerator, str | None], arch: str | None) -> Mapping[Accelerator, str | None]:
    """An unknown architecture was all that could be in CUDA's way where the GPU can be used at all."""
    if arch is None or ways[Accelerator.GPU] is not None:
        return ways
    return MappingProxyType({**ways, Accelerator.CUDA: None})


def _answer(address: str, uuid: str, name: str, capability: str, version: str, memory: str) -> Answer | None:
    pci_address = _address(address)
    if pci_address is None:
        return None
    mebibytes = size(memory)
    digits = capability.replace(".", "")
    return Answer(
        pci_address=pci_address,
        uuid=uuid if uuid.startswith("GPU-") else None,
        name=_known(name),
        arch=f"sm_{digits}" if digits.isascii() and digits.isdecimal() else None,
        driver_version=_known(version),
        memory_bytes=None if mebibytes is None else mebibytes * _MIB,
    )


def _address(text: str) -> str | None:
    """`00000000:01:00.0` as sysfs writes it."""
    domain, colon, rest = text.strip().lower().partition(":")
    try:
        return f"{int(domain, 16):04x}:{rest}" if colon else None
    except ValueError:
        return None


def _known(text: str) -> str | None:
    return None if text.strip() in ("", "[N/A]", "N/A", "[Not Supported]") else text.strip()


def _table(fields: str, programs: Iterable[str], timeout: float) -> str:
    program = next((one for one in programs if Path(one).exists()), None)
    if program is None:
        return ""
    return _output([program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"], timeout)


def _rows(output: str, fields: str) -> Iterable[list[str]]:
    rows = csv.reader(output.splitlines(), skipinitialspace=True)
    return (row for row in rows if len(row) == len(fields.split(",")))


def _output(argv: list[str], timeout: float) -> str:
    try:
        tool = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}
        )
    except OSError:
        return ""
    try:
        output, _ = tool.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        tool.kill()
        # In a call to a driver that hangs it does not end even now, and nobody waits for that.
        with suppress(subprocess.TimeoutExpired):
            tool.wait(_LAST_MOMENT)
        if tool.stdout:
            tool.stdout.close()
        return ""
    return output.decode("utf-8", "replace") if tool.returncode == 0 else ""
