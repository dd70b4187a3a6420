"""AMD's GPUs: what compilers call them, what order ROCm counts them in, and whose memory they have."""

from __future__ import annotations

from typing import Any

import pytest

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.host.choice import missing
from lemonpod.host.facts import HostFacts
from lemonpod.host.gpus import Gpu, MemoryKind
from lemonpod.host.kfd import arch_name
from tests.hardware import bare, drm, facts_of, machine, pci_function

KFD = "/sys/devices/virtual/kfd/kfd/topology/nodes"


def only(facts: HostFacts) -> Gpu:
    (gpu,) = facts.gpus
    return gpu


def amd_machine(**files: str) -> dict[str, Any]:
    """An AMD GPU that kfd says nothing of."""
    own = bare()
    path = pci_function(own, "0000:03:00.0", ids="1002:744c", pci_class=0x030000, driver="amdgpu", **files)
    drm(own, path, "card0", "renderD128")
    return own


@pytest.mark.parametrize(  # G01
    ("version", "arch"),
    [
        (90010, "gfx90a"),
        (90012, "gfx90c"),
        (90008, "gfx908"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (90006, "gfx906"),
        (90000, "gfx900"),
        (100300, "gfx1030"),
        (100306, "gfx1036"),
        (110000, "gfx1100"),
        (110003, "gfx1103"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
        (120500, "gfx1250"),
        (80003, "gfx803"),
        (0, None),
        (-110000, None),
        (111600, None),
        (110016, None),
    ],
)
def test_versions_are_written_with_hexadecimal_digits(version: int, arch: str | None) -> None:
    assert arch_name(version) == arch


def test_a_card_is_preferred_to_the_processors_own_gpu() -> None:  # G03
    facts = facts_of(machine("rx7900xtx-raphael-igpu"))

    assert [gpu.arch for gpu in facts.gpus] == ["gfx1100", "gfx1036"]
    assert [gpu.render_node for gpu in facts.gpus] == ["/dev/dri/renderD129", "/dev/dri/renderD128"]
    assert facts.rocm_arch == "gfx1100"


def test_a_processors_own_gpu_is_all_there_is() -> None:  # G03
    own = machine("rx7900xtx-raphael-igpu")
    del own["links"]["/sys/bus/pci/devices/0000:03:00.0"]

    gpu = only(facts_of(own))

    assert (gpu.arch, gpu.memory_kind) == ("gfx1036", MemoryKind.UNIFIED)
    assert gpu.memory_bytes == (gpu.vram_bytes or 0) + (gpu.gtt_bytes or 0) > 1 << 33


@pytest.mark.parametrize("name", [None, "Device 1586", "AMD Radeon RX 7900 XTX"])
def test_a_name_says_nothing_of_what_it_is(name: str | None) -> None:  # G15
    own = machine("strix-halo-gfx1151")
    if name is not None:
        own["files"]["/sys/devices/pci0000:00/0000:00:08.1/0000:c6:00.0/product_name"] = f"{name}\n"

    gpu = only(facts_of(own))

    assert (gpu.name, gpu.arch, gpu.memory_kind) == (name, "gfx1151", MemoryKind.UNIFIED)


def test_rocm_counts_nodes_by_number() -> None:
    own = machine("two-kinds-node-order")

    assert [(gpu.kfd_node, gpu.hip_index) for gpu in facts_of(own).gpus] == [(8, 0), (9, 1), (10, 2)]


def test_rocm_does_not_count_a_gpu_whose_render_node_is_not_here() -> None:
    own = machine("two-kinds-node-order")
    own["nodes"] = [node for node in own["nodes"] if node["path"] != "/dev/dri/renderD128"]

    facts = facts_of(own)

    assert [gpu.hip_index for gpu in facts.gpus] == [0, 1, None]
    assert [gpu.offers(Accelerator.ROCM) for gpu in facts.gpus] == [True, True, False]
    assert facts.rocm_arch == "gfx1100"


def test_one_render_node_that_may_not_be_opened_ends_rocm_for_all() -> None:
    own = machine("two-kinds-node-order")
    next(node for node in own["nodes"] if node["path"] == "/dev/dri/renderD129")["mode"] = "0600"

    facts = facts_of(own)

    assert facts.accelerators == ("vulkan", "gpu", "cpu")
    reason = missing(facts, Accelerator.ROCM)
    assert "/dev/dri/renderD129 may not be opened" in (reason or "")


def test_without_the_render_group() -> None:
    own = machine("rx7900xtx-raphael-igpu")
    own["user"]["groups"] = ["user"]

    facts = facts_of(own)

    assert facts.accelerators == ("cpu",)
    assert facts.rocm_arch == "gfx1100"  # the machine has it all the same
    assert missing(facts, Accelerator.ROCM) == (
        "AMD GPU (gfx1100) at 0000:03:00.0: /dev/kfd is 0660 root:render and /dev/dri/renderD129 is 0660 "
        "root:render, which this user may not open; AMD GPU (gfx1036) at 0000:0e:00.0: /dev/kfd is 0660 "
        "root:render and /dev/dri/renderD128 is 0660 root:render, which this user may not open"
    )


@pytest.mark.parametrize(  # G11
    "change",
    [
        ("gfx_target_version 110000\n", "gfx_target_version\n"),
        ("gfx_target_version 110000\n", ""),
        ("gfx_target_version 110000\n", "gfx_target_version x\n"),
        ("gfx_target_version 110000\n", "gfx_target_version 0\n"),
    ],
)
def test_a_version_that_is_not_said_is_unknown(change: tuple[str, str]) -> None:
    own = machine("rx7900xtx-raphael-igpu")
    own["files"][f"{KFD}/1/properties"] = own["files"][f"{KFD}/1/properties"].replace(*change)

    facts = facts_of(own)

    assert (facts.gpus[0].arch, facts.gpus[0].kfd_node) == (None, 1)
    assert facts.gpus[0].ways[Accelerator.ROCM] == "its architecture is unknown, as amdkfd does not say it"
    assert facts.rocm_arch == "gfx1036"


def test_lines_of_another_system_and_more_of_them() -> None:  # G11
    own = machine("rx7900xtx-raphael-igpu")
    text = own["files"][f"{KFD}/1/properties"]
    own["files"][f"{KFD}/1/properties"] = (text + "new_key 1 2\n\nodd\n").replace("\n", "  \r\n")

    assert facts_of(own).rocm_arch == "gfx1100"


def test_a_node_that_may_not_be_read() -> None:  # G11
    facts = facts_of(machine("container-kfd-eperm"))

    assert (facts.accelerators, facts.rocm_arch) == (("cpu",), None)
    assert only(facts).memory_bytes == 25753026560  # sysfs is the host's


def test_the_block_says_the_architecture_where_kfd_is_hidden() -> None:
    block = "ip_discovery/die/0/GC/0"
    files = {f"{block}/major": "10", f"{block}/minor": "3", f"{block}/revision": "7"}

    facts = facts_of(amd_machine(board_info="type : cem", **files))

    assert (facts.rocm_arch, only(facts).arch_source) == ("gfx1036", "ip_discovery")  # its block is 10.3.7
    assert facts.accelerators == ("vulkan", "gpu", "cpu")


def test_a_node_and_a_function_that_do_not_agree_are_not_matched() -> None:
    own = machine("rx7900xtx-raphael-igpu")
    for number, minor in ((1, 128), (2, 129)):
        place = f"{KFD}/{number}/properties"
        lines = [line for line in own["files"][place].splitlines() if not line.startswith("drm_render_minor")]
        own["files"][place] = "\n".join([*lines, f"drm_render_minor {minor}", ""])

    assert {gpu.arch for gpu in facts_of(own).gpus} == {None}


def test_partitions_are_devices_of_their_own() -> None:
    own = machine("mi300x-x8")
    text = own["files"][f"{KFD}/2/properties"]
    location = next(int(line.split()[1]) for line in text.splitlines() if line.startswith("location_id"))
    banks = "mem_banks/0/properties"
    own["files"][f"{KFD}/20/properties"] = text.replace(
        f"location_id {location}\n", f"location_id {location + 1}\n"
    ).replace("drm_render_minor 128\n", "drm_render_minor 129\n")
    own["files"][f"{KFD}/20/{banks}"] = "heap_type 1\nsize_in_bytes 1000\n"
    own["files"][f"{KFD}/2/{banks}"] = "heap_type 1\nsize_in_bytes 3000\n"
    own["nodes"].append({"path": "/dev/dri/renderD129", "mode": "0666", "uid": 0, "gid": "root"})

    facts = facts_of(own)

    parts = [gpu for gpu in facts.gpus if gpu.pci_address == "0000:05:00.0"]
    assert [(gpu.render_node, gpu.memory_bytes, gpu.hip_index, gpu.uuid) for gpu in parts] == [
        ("/dev/dri/renderD128", 3000, 0, None),
        ("/dev/dri/renderD129", 1000, 8, None),
    ]
    assert not any("renderD129" in one.what for one in facts.passed_over)


@pytest.mark.parametrize(
    ("kernel", "files", "integrated"),
    [
        ("6.14.0", {"board_info": "type : cem"}, False),
        ("6.14.0", {}, True),
        ("5.15.0", {"mem_info_vram_vendor": "samsung"}, False),
        ("5.15.0", {"mem_info_vram_vendor": "unknown"}, None),
        ("5.15.0", {}, None),
        ("unheard-of", {}, None),
    ],
)
def test_what_is_part_of_a_processor(kernel: str, files: dict[str, str], integrated: bool | None) -> None:
    own = amd_machine(mem_info_vram_total="4294967296", mem_info_gtt_total="8589934592", **files)
    own["files"]["/proc/version"] = f"Linux version {kernel} (x@y) #1\n"

    gpu = only(facts_of(own))

    assert gpu.integrated is integrated
    expected = {True: 3 << 32, False: 1 << 32, None: None}
    assert gpu.memory_bytes == expected[integrated]


@pytest.mark.parametrize(
    ("version", "cores", "integrated"),
    [(90012, 0, True), (100300, 0, False), (90402, 0, None), (70000, 4, True), (90002, 0, True)],
)
def test_what_an_old_kernel_tells_by_the_architecture(
    version: int, cores: int, integrated: bool | None
) -> None:
    own = amd_machine()
    own["files"]["/proc/version"] = "Linux version 5.15.0 (x@y) #1\n"
    own["links"]["/sys/class/kfd/kfd"] = "../../devices/virtual/kfd/kfd"
    own["files"][f"{KFD}/1/properties"] = (
        f"cpu_cores_count {cores}\nsimd_count 32\ngfx_target_version {version}\nlocation_id 768\n"
        "drm_render_minor 128\n"
    )

    assert only(facts_of(own)).integrated is integrated
