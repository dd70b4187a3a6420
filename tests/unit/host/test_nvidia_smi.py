"""NVIDIA's tool is a helper: it fills gaps, contradicts no file, and may be slow, broken or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lemonpod.host.choice import lacks_an_architecture
from lemonpod.host.nvidia_smi import answers, asked, completed
from tests.hardware import facts_of, machine

UUID = "GPU-6a3c2f41-8d20-53b7-9f0e-71c4e82d9b16"
LINE = f"00000000:01:00.0, {UUID}, NVIDIA GeForce RTX 4090, 8.9, 570.195.03, 24564\n"


def program(folder: Path, script: str) -> str:
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\n{script}")
    file.chmod(0o755)
    return str(file)


def test_memory_is_what_no_file_says(tmp_path: Path) -> None:
    facts = facts_of(machine("rtx4090-proc"))

    (gpu,) = asked(facts, programs=["/none", program(tmp_path, f"echo '{LINE.strip()}'")]).gpus

    assert gpu.memory_bytes == 24564 << 20
    assert (gpu.arch, gpu.arch_source) == ("sm_89", "pci_table")


def test_gpus_are_told_apart_by_address_and_not_by_place() -> None:  # G13
    facts = facts_of(machine("h200-x4-vm"))
    lines = [f"0000000{n}:00:00.0, [N/A], NVIDIA H200, 9.0, 570.1, {n}" for n in (8, 3, 2, 1)]

    done = completed(facts, answers("\n".join(lines)))

    assert [(gpu.memory_bytes or 0) >> 20 for gpu in done.gpus] == [1, 2, 3, 8]
    assert [gpu.uuid for gpu in done.gpus] == [gpu.uuid for gpu in facts.gpus]


def test_windows_says_what_its_gpu_is() -> None:
    facts = facts_of(machine("wsl2-nvidia"))
    assert lacks_an_architecture(facts)

    done = completed(facts, answers(LINE))

    assert not lacks_an_architecture(done)
    assert (done.cuda_arch, done.accelerators) == ("sm_89", ("cuda", "gpu", "cpu"))
    assert (done.gpus[0].uuid, done.gpus[0].arch_source) == (UUID, "nvidia-smi")


def test_a_chip_that_no_table_has() -> None:
    own = machine("rtx4090-proc")
    path = next(path for path in own["files"] if path.endswith("0000:01:00.0/device"))
    own["files"][path] = "0x3000\n"
    facts = facts_of(own)
    assert lacks_an_architecture(facts)

    done = completed(facts, answers(LINE.replace("8.9", "14.0")))

    assert (done.cuda_arch, done.accelerators) == ("sm_140", ("cuda", "vulkan", "gpu", "cpu"))


@pytest.mark.parametrize(
    "output",
    [
        "",
        "Failed to initialize NVML: Driver/library version mismatch\n",
        "a, b\n",
        "zz, u, n, 8.9, 1, 2\n",
        "00000000:01:00.0, [N/A], [N/A], [N/A], [N/A], [N/A]\n",
        "\x00, \n\n",
        '"unclosed, 1, 2\n',
    ],
)
def test_what_it_does_not_know_changes_nothing(output: str) -> None:
    facts = facts_of(machine("rtx4090-proc"))

    assert completed(facts, answers(output)) == facts


@pytest.mark.parametrize("script", ["exit 9", "exec sleep 60", "kill -9 $$", "echo '\\0377'"])
def test_a_tool_that_does_not_work(script: str, tmp_path: Path) -> None:
    facts = facts_of(machine("rtx4090-proc"))

    assert asked(facts, programs=[program(tmp_path, script)], timeout=0.2) == facts


def test_nobody_is_asked_for_nothing(tmp_path: Path) -> None:
    witness = tmp_path / "asked"
    tool = program(tmp_path, f"touch {witness}")

    for name in ("rx9070xt-gfx1201", "empty-sys", "optimus-rtx4060-suspended", "jetson-agx-orin"):
        facts = facts_of(machine(name))  # none of NVIDIA's, asleep, or known already
        assert asked(facts, programs=[tool]) is facts
        assert not lacks_an_architecture(facts)

    assert not os.path.exists(witness)
