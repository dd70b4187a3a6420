"""How full memory is: from the files of many machines, and from NVIDIA's tool where no file says it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host.document import document
from lemonpod.host.memory import fullness
from lemonpod.host.nvidia_smi import memory_shares
from lemonpod.host.tree import Folder
from tests.factories import make_facts
from tests.hardware import facts_of, machine

ALL = frozenset(Accelerator)
SLEEPING = "0000:01:00.0"


def nobody() -> Mapping[str, float]:
    raise AssertionError("the tool was asked")


def told(own: dict[str, Any], by_tool: Mapping[str, float] | None = None) -> dict[Accelerator, float]:
    """Of a document, on a machine with these answers of the tool."""
    own["files"]["/proc/meminfo"] = "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 600 kB\n"
    found = fullness(
        facts_of(own), ALL, tree=document(own), ask=nobody if by_tool is None else lambda: by_tool
    )
    return {accelerator: round(share, 3) for accelerator, share in found.items()}


def use(own: dict[str, Any], address: str, **bytes_used: int) -> None:
    for kind, used in bytes_used.items():
        path = next(p for p in own["files"] if p.endswith(f"{address}/mem_info_{kind}_used"))
        own["files"][path] = f"{used}\n"


def test_without_a_gpu_there_is_the_machines_own() -> None:
    machines = {Accelerator.CPU: 0.4, Accelerator.NPU: 0.4}
    assert told(machine("empty-sys")) == machines


def test_a_card_has_its_own_and_the_fullest_of_several_counts() -> None:
    own = machine("rx7900xtx-raphael-igpu")
    use(own, "0000:03:00.0", vram=25753026560 // 2, gtt=16377958400)
    found = told(own)
    assert found[Accelerator.ROCM] == found[Accelerator.VULKAN] == 0.5
    use(own, "0000:0e:00.0", gtt=16377958400 * 3 // 4)
    assert told(own)[Accelerator.ROCM] == 0.75


@pytest.mark.parametrize(
    ("vram", "gtt", "expected"),
    [
        (2147483648, 0, 0.018),  # what was carved out is small: it being full is nothing
        (0, 120259084288 * 9 // 10, 0.9),
        (2147483648, 120259084288, 1.0),
    ],
)
def test_a_part_of_the_processor_has_what_it_may_map(vram: int, gtt: int, expected: float) -> None:
    own = machine("strix-halo-gfx1151")
    use(own, "0000:c6:00.0", vram=vram, gtt=gtt)
    assert told(own)[Accelerator.ROCM] == expected


@pytest.mark.parametrize("text", ["", "many\n", "-1\n", "99999999999999\n"])
def test_what_a_file_does_not_say_is_unknown(text: str) -> None:
    own = machine("rx9070xt-gfx1201")
    path = next(p for p in own["files"] if p.endswith("/mem_info_vram_used"))
    own["files"][path] = text
    assert told(own).keys() == {Accelerator.CPU, Accelerator.NPU}


def test_nvidias_cards_are_told_apart_by_address() -> None:
    found = told(machine("h200-x4-vm"), {"0001:00:00.0": 0.1, "0002:00:00.0": 0.93})
    assert found[Accelerator.CUDA] == found[Accelerator.GPU] == 0.93
    assert Accelerator.CUDA not in told(machine("h200-x4-vm"), {"0000:77:00.0": 0.5})


def test_windows_shares_all_that_its_tool_tells_of() -> None:
    assert told(machine("wsl2-nvidia"), {"0000:77:00.0": 0.5})[Accelerator.GPU] == 0.5


def test_a_gpu_that_sleeps_is_not_woken() -> None:
    own = machine("optimus-rtx4060-suspended")
    assert Accelerator.CUDA not in told(own)
    path = next(p for p in own["files"] if p.endswith(f"{SLEEPING}/power/runtime_status"))
    own["files"][path] = "active\n"
    assert told(own, {SLEEPING: 0.9})[Accelerator.CUDA] == 0.9


@pytest.mark.parametrize("name", ["jetson-agx-orin", "core-ultra-155h-npu"])
def test_a_gpu_that_computes_in_the_machines_memory(name: str) -> None:
    assert told(machine(name))[Accelerator.VULKAN] == 0.4


def test_nobody_can_tell_of_intels_cards() -> None:
    assert told(machine("arc-a770-i915")).keys() == {Accelerator.CPU, Accelerator.NPU}


def test_only_what_is_asked_for_is_looked_up() -> None:
    own = machine("rtx4090-proc")
    assert fullness(facts_of(own), {Accelerator.METAL}, tree=document(own), ask=nobody) == {}


def test_this_machine(tmp_path: Path) -> None:
    found = fullness(make_facts(), {Accelerator.CPU})
    assert 0 < found[Accelerator.CPU] < 1
    assert fullness(make_facts(), {Accelerator.CPU}, tree=Folder(tmp_path)) == {}


def test_what_the_tool_says(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --query-gpu=pci.bus_id,memory.used,memory.total ] || exit 1\n'
        "echo '00000000:01:00.0, 12282, 24564'\n"
        "echo '00000000:02:00.0, [N/A], 24564'\n"
        "echo '00000000:03:00.0, 0, 0'\n"
        "echo '00000000:04:00.0, 5, 4'\n"
        "echo 'No devices were found'\n"
    )
    program.chmod(0o755)
    assert memory_shares(programs=[str(program)]) == {"0000:01:00.0": 0.5}
    assert memory_shares(programs=["/none"]) == {}


def test_a_tool_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    assert memory_shares(programs=[str(program)], timeout=0.1) == {}
