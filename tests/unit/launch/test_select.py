from __future__ import annotations

from typing import Any

import pytest

from lemonpod.contract.vocabulary import Accelerator, Os
from lemonpod.errors import PlatformNotSupportedError
from lemonpod.host.choice import with_gpus
from lemonpod.launch.select import match_arch, select_block
from tests.factories import make_facts
from tests.hardware import facts_of, machine
from tests.unit.launch.requests import make_manifest


def blocks(*names: str) -> dict[str, Any]:
    return {name: {"command": name, "args": []} for name in names}


# The order of RFC section 9; what a host has comes in the order of preference.
@pytest.mark.parametrize(
    ("names", "default", "device", "found", "expected"),
    [
        ("cpu cuda", None, None, "cuda cpu", "cuda"),
        ("cpu cuda", None, None, "cpu", "cpu"),
        ("cpu cuda", "cpu", None, "cuda cpu", "cpu"),
        ("cpu cuda", "cpu", "cuda", "cpu", "cuda"),
        ("cpu cuda", "cpu", "vulkan", "cuda cpu", "cpu"),
        ("cpu cuda", None, "vulkan", "cuda cpu", "cuda"),
        ("cpu cuda", None, "gpu", "cuda cpu", "cuda"),
        ("cpu cuda", "rocm", None, "cuda cpu", "cuda"),
        ("vulkan rocm cuda", None, None, "rocm vulkan cpu", "rocm"),
        ("vulkan gpu", None, None, "rocm vulkan gpu cpu", "vulkan"),
        ("vulkan rocm cuda", None, None, "cpu", "cuda"),
        ("tpu npu", None, None, "cpu", "npu"),
        ("npu", None, None, "cpu", "npu"),
    ],
)
def test_the_accelerator(
    names: str, default: str | None, device: str | None, found: str, expected: str
) -> None:
    manifest = make_manifest(platforms={"linux": blocks(*names.split())}, default_accelerator=default)
    facts = make_facts(accelerators=tuple(Accelerator(name) for name in found.split()))
    selection = select_block(manifest, facts, device)
    assert selection.accelerator == expected
    assert selection.path == f"platforms.linux.{expected}"
    assert str(selection.block.command) == expected


@pytest.mark.parametrize(
    ("default", "device", "found", "line"),
    [
        (None, "cuda", "cpu", "accelerator: cuda, the option 'device' of this model"),
        ("cuda", None, "cpu", "accelerator: cuda, the manifest's default_accelerator"),
        ("cuda", "tpu", "cpu",
         "accelerator: cuda, the manifest's default_accelerator (no block for the device 'tpu')"),
        (None, None, "rocm", "accelerator: rocm, found on this host"),
        (None, None, "cpu",
         "accelerator: cuda, the first of the manifest's, none of which this host is known to have"),
    ],
)  # fmt: skip
def test_a_line_says_why(default: str | None, device: str | None, found: str, line: str) -> None:
    manifest = make_manifest(platforms={"linux": blocks("rocm", "cuda")}, default_accelerator=default)
    selection = select_block(manifest, make_facts(accelerators=(Accelerator(found),)), device)
    assert selection.lines[:2] == ("operating system: linux", line)
    lacks = "no NVIDIA GPU with its driver was found" if found == "cpu" else None
    assert selection.lacks == lacks
    assert selection.lines[2:] == ((f"cuda is not known to work here: {lacks}",) if lacks else ())


def test_an_operating_system_without_a_block() -> None:
    manifest = make_manifest(platforms={"darwin": blocks("metal"), "windows": blocks("cpu")})
    with pytest.raises(PlatformNotSupportedError, match="no platform block for host OS 'linux'") as caught:
        select_block(manifest, make_facts(), None)
    assert caught.value.hint == "it has blocks for: darwin, windows"
    mac = make_facts(os=Os.DARWIN, accelerators=(Accelerator.METAL, Accelerator.CPU))
    assert select_block(manifest, mac, None).path == "platforms.darwin.metal"


@pytest.mark.parametrize(
    ("patterns", "arch", "expected"),
    [
        (["gfx115*", "gfx1151"], "gfx1151", "gfx1151"),
        (["gfx115*", "gfx1151"], "gfx1150", "gfx115*"),
        (["gfx11*", "gfx1*", "gfx115?"], "gfx1150", "gfx1*"),
        (["*"], "sm_90", "*"),
        (["sm_9?"], "sm_90", "sm_9?"),
        (["sm_9?"], "sm_9", None),
        (["gfx115"], "gfx1151", None),
        (["gfx115*"], "xgfx1151", None),
        (["GFX1151"], "gfx1151", None),
        (["gfx[0-9]*"], "gfx1151", None),
        (["gfx.*"], "gfx1151", None),
        (["gfx115*"], "", None),
        (["*"], None, None),
        ([], "gfx1151", None),
    ],
)
def test_exact_wins_then_the_first_glob_in_sorted_order(
    patterns: list[str], arch: str | None, expected: str | None
) -> None:
    assert match_arch(patterns, arch) == expected


def arch_block() -> dict[str, Any]:
    return {
        "rocm": {
            "command": "engine",
            "args": ["base"],
            "env": {"A": "1", "B": "2"},
            "working_dir": "/base",
            "reserved_args": ["--base"],
            "arch": {
                "gfx1151": {"args": ["exact"], "env": {"B": "3", "C": "4"}, "reserved_args": []},
                "gfx115*": {"command": "other", "working_dir": "/glob"},
            },
        }
    }


@pytest.mark.parametrize(
    ("arch", "command", "args", "env", "working_dir", "reserved"),
    [
        ("gfx1151", "engine", ["exact"], {"A": "1", "B": "3", "C": "4"}, "/base", ()),
        ("gfx1150", "other", ["base"], {"A": "1", "B": "2"}, "/glob", ("--base",)),
        ("gfx1100", "engine", ["base"], {"A": "1", "B": "2"}, "/base", ("--base",)),
        (None, "engine", ["base"], {"A": "1", "B": "2"}, "/base", ("--base",)),
    ],
)
def test_an_arch_override_replaces_fields_and_merges_env(
    arch: str | None,
    command: str,
    args: list[str],
    env: dict[str, str],
    working_dir: str,
    reserved: tuple[str, ...],
) -> None:
    manifest = make_manifest(platforms={"linux": arch_block()})
    facts = make_facts(accelerators=(Accelerator.ROCM,), rocm_arch=arch)
    block = select_block(manifest, facts, None).block
    assert str(block.command) == command
    assert [str(arg) for arg in block.args or ()] == args
    assert {name: str(value) for name, value in block.env.items()} == env
    assert str(block.working_dir) == working_dir
    assert block.reserved_args == reserved


@pytest.mark.parametrize(  # a host may have GPUs of two makers
    ("accelerator", "rocm", "cuda", "expected"),
    [
        ("rocm", "gfx1151", "sm_90", "gfx1151"),
        ("cuda", "gfx1151", "sm_90", "sm_90"),
        ("rocm", None, "sm_90", None),
        ("cuda", "gfx1151", None, None),
        ("vulkan", "gfx1151", "sm_90", "gfx1151"),
        ("vulkan", None, "sm_90", "sm_90"),
    ],
)
def test_the_arch_is_the_accelerators(
    accelerator: str, rocm: str | None, cuda: str | None, expected: str | None
) -> None:
    (block,) = arch_block().values()
    block["arch"]["sm_90"] = {"args": ["cuda"]}
    manifest = make_manifest(platforms={"linux": {accelerator: block}})
    facts = make_facts(accelerators=(Accelerator(accelerator),), rocm_arch=rocm, cuda_arch=cuda)
    selection = select_block(manifest, facts, None)
    assert selection.arch == expected
    none = f"none as no architecture for {accelerator} is known, of: gfx115*, gfx1151, sm_90"
    found = f"'{expected}', for {expected}" if expected else none
    assert selection.lines[-1] == f"arch override: {found}"


def test_the_arch_for_vulkan_is_that_of_the_gpu_that_is_preferred() -> None:  # G13
    manifest = make_manifest(platforms={"linux": blocks("vulkan", "cpu")})
    gpus = facts_of(machine("rtx4090-proc")).gpus + facts_of(machine("strix-halo-gfx1151")).gpus
    facts = with_gpus(make_facts(), gpus)
    assert (facts.arch, select_block(manifest, facts, None).arch) == ("gfx1151", "sm_89")
