"""NVIDIA's GPUs: by ids and not by names, with and without what their driver says."""

from __future__ import annotations

import pytest

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host.choice import missing
from lemonpod.host.facts import HostFacts
from lemonpod.host.gpus import Gpu
from lemonpod.host.nvidia_ids import compute_arch
from tests.hardware import bare, drm, facts_of, machine, pci_function


def only(facts: HostFacts) -> Gpu:
    (gpu,) = facts.gpus
    return gpu


@pytest.mark.parametrize(
    ("device", "arch"),
    [
        (0x2684, "sm_89"),
        (0x28A3, "sm_89"),  # sold as one of the generation before
        (0x1F0A, "sm_75"),
        (0x13AD, "sm_52"),
        (0x13AF, "sm_50"),
        (0x20B5, "sm_80"),
        (0x2335, "sm_90"),
        (0x2E12, "sm_121"),
        (0x2B85, "sm_120"),
        (0x2B00, "sm_110"),
        (0x3182, "sm_103"),
        (0x3000, None),
        (0x3340, None),
        (0x0863, None),
        (None, None),
    ],
)
def test_ids_tell_the_architecture_and_names_do_not(device: int | None, arch: str | None) -> None:  # G15
    assert compute_arch(device) == arch


def test_a_name_that_nobody_knows_changes_nothing() -> None:  # G15
    own = machine("rtx3050a-name-trap")
    place = "/proc/driver/nvidia/gpus/0000:01:00.0/information"
    own["files"][place] = own["files"][place].replace("NVIDIA GeForce RTX 3050 A Laptop GPU", "Device 1586")

    gpu = only(facts_of(own))

    assert (gpu.name, gpu.arch) == ("Device 1586", "sm_89")


@pytest.mark.parametrize(  # G07
    ("driver", "offered"), [("vfio-pci", False), ("nouveau", True), (None, False), ("nvidiafb", False)]
)
def test_a_driver_decides_what_a_gpu_is_good_for(driver: str | None, offered: bool) -> None:
    own = bare()
    path = pci_function(own, "0000:01:00.0", ids="10de:2684", pci_class=0x030000, driver=driver)
    pci_function(own, "0000:01:00.1", ids="10de:22ba", pci_class=0x040300, driver="snd_hda_intel")
    if driver == "nouveau":
        drm(own, path, "card0", "renderD128")

    facts = facts_of(own)

    assert len(facts.gpus) == offered
    assert [one.what for one in facts.passed_over] == ([] if offered else ["0000:01:00.0 10de:2684"])
    assert facts.accelerators == (("vulkan", "gpu", "cpu") if offered else ("cpu",))
    assert facts.cuda_arch == ("sm_89" if offered else None)
    reason = missing(facts, Accelerator.CUDA)
    assert (driver or "without a driver") in (reason or "")


def test_a_card_kept_for_a_virtual_machine_beside_one_that_is_not() -> None:  # G07
    own = machine("rtx4090-proc")
    pci_function(own, "0000:02:00.0", ids="10de:2b85", pci_class=0x030000, driver="vfio-pci")

    facts = facts_of(own)

    assert [gpu.pci_address for gpu in facts.gpus] == ["0000:01:00.0"]
    assert facts.cuda_arch == "sm_89"
    assert [one.why for one in facts.passed_over] == ["a GPU that vfio-pci keeps for a virtual machine"]


def test_without_proc_and_without_a_name() -> None:  # G07
    gpu = only(facts_of(machine("rtx3060-container-noproc")))

    assert (gpu.arch, gpu.name, gpu.index, gpu.driver_version) == ("sm_86", None, None, "580.95.05")
    assert gpu.offers(Accelerator.CUDA)


def test_a_node_that_is_another_gpus_is_not_taken() -> None:
    own = machine("h200-x4-vm")
    for path in [path for path in own["files"] if "gpus/0002:00:00.0" in path]:
        del own["files"][path]
    own["nodes"] = [node for node in own["nodes"] if node["path"] != "/dev/nvidia1"]

    facts = facts_of(own)

    assert [gpu.usable for gpu in facts.gpus] == [True, False, True, True]
    assert facts.gpus[1].why_not == "no /dev/nvidiaN of its own here"


def test_a_new_chip_is_not_taken_for_the_one_before() -> None:
    own = machine("rtx4090-proc")
    path = next(path for path in own["files"] if path.endswith("0000:01:00.0/device"))
    own["files"][path] = "0x3000\n"

    facts = facts_of(own)

    assert (facts.cuda_arch, facts.accelerators) == (None, ("vulkan", "gpu", "cpu"))
    assert "compute capability is unknown" in (missing(facts, Accelerator.CUDA) or "")
    assert (only(facts).integrated, only(facts).memory_kind) == (None, "unknown")


def test_a_gpu_in_a_processor_computes_in_the_machines_memory() -> None:
    own = machine("rtx4090-proc")
    path = next(path for path in own["files"] if path.endswith("0000:01:00.0/device"))
    own["files"][path] = "0x2e12\n"

    facts = facts_of(own)

    assert (only(facts).integrated, only(facts).memory_kind) == (True, "unified")
    assert only(facts).memory_bytes == facts.memory_bytes


def test_the_newest_architecture_of_several() -> None:
    own = machine("rtx4090-proc")
    pci_function(own, "0000:02:00.0", ids="10de:2b85", pci_class=0x030000, driver="nvidia")
    own["nodes"].append({"path": "/dev/nvidia1", "mode": "0666", "uid": 0, "gid": 0})

    assert facts_of(own).cuda_arch == "sm_120"


def test_devices_of_nvidias_that_are_no_gpus() -> None:
    own = bare()
    for number, pci_class in enumerate((0x040300, 0x0C0330, 0x0C8000, 0x068000, 0x060400)):
        pci_function(own, f"0000:0{number}:00.0", ids="10de:2684", pci_class=pci_class, driver="nvidia")

    facts = facts_of(own)

    assert not facts.gpus
    assert not facts.passed_over


def test_a_container_without_sys_in_which_the_driver_still_speaks() -> None:  # G07
    own = machine("rtx4090-proc")
    for part in ("files", "links"):
        own[part] = {path: text for path, text in own[part].items() if not path.startswith("/sys/")}

    facts = facts_of(own)

    gpu = only(facts)
    assert (gpu.name, gpu.pci_address, gpu.index) == ("NVIDIA GeForce RTX 4090", "0000:01:00.0", 0)
    assert (gpu.arch, gpu.memory_kind, gpu.driver_version) == (None, "unknown", "570.195.03")
    assert facts.accelerators == ("vulkan", "gpu", "cpu")  # and CUDA where its tool says the rest
