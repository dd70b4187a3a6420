"""How busy a machine is, as its files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from lemonpod.host.usage import CpuTime, GpuUse, cpu_percent, cpu_time, gpu_use, memory_used


def test_from_the_files(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "stat").write_text("cpu  100 0 50 800 50 0 0 0 70 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
    (proc / "meminfo").write_text("MemTotal:   1000 kB\nMemFree:   10 kB\nMemAvailable:   600 kB\n")

    assert cpu_time(tmp_path) == CpuTime(idle=850, total=1000)
    assert memory_used(tmp_path) == 400 * 1024


@pytest.mark.parametrize("text", ["", "cpu  1 2\n", "intr 5\n"])
def test_what_cannot_be_told_is_unknown(tmp_path: Path, text: str) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "stat").write_text(text)

    assert cpu_time(tmp_path) is None
    assert memory_used(tmp_path) is None


def test_the_share_between_two_looks() -> None:
    before, after = CpuTime(idle=100, total=200), CpuTime(idle=175, total=300)

    assert cpu_percent(before, after) == 25.0
    assert cpu_percent(after, after) is None
    assert cpu_percent(None, after) is None


def gpu(root: Path, card: str, **files: str) -> None:
    device = root / "sys/class/drm" / card / "device"
    device.mkdir(parents=True)
    for name, text in files.items():
        (device / name).write_text(text)


def test_the_gpu_that_works_most(tmp_path: Path) -> None:
    gpu(tmp_path, "card0", gpu_busy_percent="3\n", mem_info_vram_used="100\n", mem_info_gtt_used="7\n")
    gpu(
        tmp_path,
        "card1",
        gpu_busy_percent="80\n",
        mem_info_vram_used="500\n",
        mem_info_gtt_used="9\n",
        board_info="x",
    )
    gpu(tmp_path, "card1-DP-1", gpu_busy_percent="99\n")

    assert gpu_use(tmp_path) == GpuUse(80, 500)


def test_a_gpu_within_a_processor_uses_the_machines_memory(tmp_path: Path) -> None:
    gpu(tmp_path, "card0", gpu_busy_percent="3\n", mem_info_vram_used="100\n", mem_info_gtt_used="7\n")

    assert gpu_use(tmp_path) == GpuUse(3, 107)


def test_a_gpu_of_another_driver_tells_nothing(tmp_path: Path) -> None:
    gpu(tmp_path, "card0")
    gpu(tmp_path, "card1", gpu_busy_percent="N/A\n")

    assert gpu_use(tmp_path) == GpuUse()
    assert gpu_use(tmp_path / "nothing") == GpuUse()
