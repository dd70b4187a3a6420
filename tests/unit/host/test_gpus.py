"""Intel's GPUs, NPUs, what is no GPU, and hosts with GPUs of several makers."""

from __future__ import annotations

import json

import pytest

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host.facts import HostFacts
from lemonpod.host.gpus import Gpu
from tests.hardware import bare, drm, facts_of, machine, pci_function


def only(facts: HostFacts) -> Gpu:
    (gpu,) = facts.gpus
    return gpu


@pytest.mark.parametrize("driver", ["i915", "xe"])  # G09
def test_both_of_intels_drivers(driver: str) -> None:
    own = bare()
    path = pci_function(own, "0000:03:00.0", ids="8086:e20b", pci_class=0x030000, driver=driver)
    drm(own, path, "card1", "renderD129")

    facts = facts_of(own)

    assert (only(facts).memory_bytes, only(facts).memory_kind) == (None, "dedicated")  # unknown, not 0
    assert facts.accelerators == ("vulkan", "gpu", "cpu")


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        ({"tile0/physical_vram_size_bytes": "1000", "tile1/physical_vram_size_bytes": "500"}, 1500),
        ({"tile0/physical_vram_size_bytes": "1000", "tile1/physical_vram_size_bytes": "?"}, None),
        ({"tile0/physical_vram_size_bytes": "0"}, None),
        ({"drm/card1/lmem_total_bytes": "17179869184"}, 1 << 34),
    ],
)
def test_drivers_that_say_the_memory(files: dict[str, str], memory: int | None) -> None:
    own = bare()
    path = pci_function(own, "0000:03:00.0", ids="8086:0bd5", pci_class=0x038000, driver="xe", **files)
    drm(own, path, "card1", "renderD129")

    assert only(facts_of(own)).memory_bytes == memory


@pytest.mark.parametrize(  # G05
    ("ids", "driver"),
    [
        ("1a03:2000", "ast"),
        ("1234:1111", "bochs-drm"),
        ("1af4:1050", "virtio-pci"),
        ("15ad:0405", "vmwgfx"),
        ("1414:5353", "hyperv_drm"),
        ("102b:0522", "mgag200"),
        ("1b36:0100", "qxl"),
    ],
)
def test_a_display_that_is_the_first_card_and_no_gpu(ids: str, driver: str) -> None:
    own = bare()
    display = pci_function(own, "0000:02:00.0", ids=ids, pci_class=0x030000, driver=driver)
    drm(own, display, "card0", "card0-VGA-1")
    alone = facts_of(own)
    path = pci_function(own, "0000:03:00.0", ids="8086:56a0", pci_class=0x030000, driver="i915")
    drm(own, path, "card1", "card1-DP-1", "card1-Writeback-1", "renderD128")

    facts = facts_of(own)

    assert (alone.gpus, alone.accelerators) == ((), ("cpu",))
    assert only(facts).render_node == "/dev/dri/renderD128"
    assert [one.what for one in facts.passed_over] == [f"0000:02:00.0 {ids} (card0)"]


def test_a_virtual_display_whose_node_is_below_its_function() -> None:
    own = bare()
    path = pci_function(own, "0000:02:00.0", ids="1af4:1050", pci_class=0x038000, driver="virtio-pci")
    drm(own, f"{path}/virtio0", "card0", "renderD128")

    facts = facts_of(own)

    assert [one.what for one in facts.passed_over] == ["0000:02:00.0 1af4:1050 (card0/renderD128)"]
    assert facts.accelerators == ("cpu",)


def test_a_gpu_without_a_render_node() -> None:
    own = bare()
    path = pci_function(own, "0000:00:02.0", ids="8086:a788", pci_class=0x030000, driver="i915")
    drm(own, path, "card0")

    assert only(facts_of(own)).why_not == "it has no render node"


@pytest.mark.parametrize(
    ("device", "revision", "arch"),
    [("1502", "0x00", "XDNA1"), ("17f0", "0x11", "XDNA2"), ("17f0", "0x99", None), ("17f1", "0x10", None)],
)
def test_npus_by_device_and_revision(device: str, revision: str, arch: str | None) -> None:
    own = bare()
    path = pci_function(
        own, "0000:c5:00.1", ids=f"1022:{device}", pci_class=0x118000, driver="amdxdna", revision=revision
    )
    own["links"]["/sys/class/accel/accel0"] = f"../../..{path}/accel/accel0"
    own["links"][f"{path}/accel/accel0/device"] = "../.."

    (npu,) = facts_of(own).npus

    assert npu.arch == arch
    assert npu.why_not == "no /dev/accel/accel0 here"


def test_wsl_without_a_driver_of_nvidias() -> None:
    own = machine("wsl2-nvidia")
    own["files"] = {path: text for path, text in own["files"].items() if not path.startswith("/usr/lib/wsl")}

    facts = facts_of(own)

    assert (only(facts).vendor, facts.accelerators) == (None, ("gpu", "cpu"))


def test_each_maker_has_an_order_of_its_own() -> None:  # G13
    own = machine("rx7900xtx-raphael-igpu")
    other = machine("rtx4090-proc")
    text = json.dumps(other).replace("0000:01:00.0", "0000:41:00.0")
    for part in ("files", "links"):
        added = {path: entry for path, entry in json.loads(text)[part].items() if "0000:41:00.0" in path}
        own[part] |= {path: entry for path, entry in added.items() if "/drm/" not in path}
    own["nodes"] += [node for node in other["nodes"] if "nvidia" in node["path"]]

    facts = facts_of(own)

    assert [gpu.arch for gpu in facts.gpus] == ["sm_89", "gfx1100", "gfx1036"]
    assert facts.accelerators == ("cuda", "rocm", "vulkan", "gpu", "cpu")
    assert (facts.arch_of(Accelerator.CUDA), facts.arch_of(Accelerator.ROCM)) == ("sm_89", "gfx1100")
    assert facts.arch_of(Accelerator.VULKAN) == "sm_89"
    assert facts.arch_of(Accelerator.CPU) == facts.arch == "gfx1100"


@pytest.mark.parametrize("hidden", ["/sys/", "/sys/class/", "/sys/bus/", "/proc/", "/dev/"])
def test_what_a_container_hides(hidden: str) -> None:  # G11
    for name in ("mi300x-x8", "rtx4090-proc", "krackan-npu-amdxdna", "jetson-agx-orin", "arc-a770-i915"):
        own = machine(name)
        for part in ("files", "links"):
            own[part] = {path: entry for path, entry in own[part].items() if not path.startswith(hidden)}
        own["dirs"] = [path for path in own["dirs"] if not path.startswith(hidden)]
        own["nodes"] = [node for node in own["nodes"] if not node["path"].startswith(hidden)]

        facts = facts_of(own)

        assert facts.accelerators[-1] is Accelerator.CPU
        if hidden == "/dev/" or (hidden == "/sys/" and "rtx" not in name):
            assert facts.accelerators == ("cpu",)
