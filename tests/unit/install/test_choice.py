"""Which artifact is installed, and that nothing is guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.parse import parse_manifest
from lemonpod.contract.vocabulary import Accelerator
from lemonpod.errors import InstallError, PlatformNotSupportedError
from lemonpod.install.choice import choose
from lemonpod.launch.installed import Artifact
from tests.factories import make_document, make_facts

EXAMPLES = Path(__file__).parents[2] / "data/manifests/valid"
URL = "https://example.invalid"


def example(name: str) -> Manifest:
    return parse_manifest(json.loads((EXAMPLES / f"{name}.json").read_text()))


def variant(blocks: dict[str, Any], **document: Any) -> Manifest:
    platforms = {"linux": {name: {"binary": "server", **block} for name, block in blocks.items()}}
    return parse_manifest(make_document(variant_of="llamacpp", platforms=platforms, **document))


def pin(digit: str) -> str:
    return "sha256:" + digit * 64


def test_one_artifact_for_all() -> None:
    """RFC 13.3."""
    choice = choose(example("rocm-nightly"), make_facts())

    assert choice.artifact is not None
    assert choice.artifact.source.endswith("/llama-server-linux-rocm.tar.gz")
    assert choice.place == "platforms.linux.rocm"


@pytest.mark.parametrize(
    ("accelerator", "name", "digit"),
    [
        ("rocm", "linux-rocm.tar.gz", "1"),
        ("cuda", "linux-cuda.tar.gz", "2"),
        ("cpu", "linux-cpu.tar.gz", "3"),
    ],
)
def test_one_artifact_per_accelerator(accelerator: str, name: str, digit: str) -> None:
    """RFC 13.4."""
    choice = choose(example("per-platform"), make_facts(), accelerator=accelerator)

    assert choice.artifact == Artifact(source=f"{URL}/llamacpp-fork/{name}", sha256=pin(digit))
    assert choice.selection.path == f"platforms.linux.{accelerator}"


def test_several_artifacts_are_named_and_not_guessed() -> None:
    facts = make_facts(accelerators=(Accelerator.CUDA, Accelerator.ROCM, Accelerator.CPU))
    with pytest.raises(InstallError) as error:
        choose(example("per-platform"), facts)

    assert error.value.message == (
        "manifest publishes per-platform artifacts; pick one with --accelerator (cpu, cuda, rocm)"
    )
    assert error.value.hint == "a model that names no device would be run here as: cuda"


def test_an_unknown_accelerator() -> None:
    with pytest.raises(InstallError, match="no platform block for accelerator 'vulkan'") as error:
        choose(example("per-platform"), make_facts(), accelerator="vulkan")
    assert error.value.hint == "it has cpu, cuda, rocm"


@pytest.mark.parametrize(
    ("arch", "place", "name", "digit"),
    [
        ("gfx1151", ".arch.gfx1151", "gfx1151.tar.gz", "5"),
        ("gfx1150", ".arch.gfx115*", "gfx115x.tar.gz", "6"),
        ("gfx115*", ".arch.gfx115*", "gfx115x.tar.gz", "6"),
    ],
)
def test_one_artifact_per_arch(arch: str, place: str, name: str, digit: str) -> None:
    """RFC 13.5; said by hand, and known of the host."""
    said = choose(example("arch-overrides"), make_facts(), arch=arch)
    known = choose(example("arch-overrides"), make_facts(rocm_arch=arch))

    for choice in (said, known):
        assert choice.artifact == Artifact(source=f"{URL}/{name}", sha256=pin(digit))
        assert choice.place == f"platforms.linux.rocm{place}"


def test_archs_are_named_and_not_guessed() -> None:
    with pytest.raises(InstallError) as error:
        choose(example("arch-overrides"), make_facts())
    assert error.value.message == "manifest chooses its artifact by arch; pass --arch (gfx1151, gfx115*)"

    with pytest.raises(InstallError, match=r"--arch \(gfx1151, gfx115\*\), none of which is for 'gfx900'"):
        choose(example("arch-overrides"), make_facts(), arch="gfx900")


def test_a_passthrough_recipe_has_none() -> None:
    assert choose(example("arch-alias"), make_facts()).artifact is None


def test_no_block_for_this_system() -> None:
    manifest = parse_manifest(
        make_document(variant_of="llamacpp", platforms={"windows": {"cpu": {"binary": "x.exe"}}})
    )
    with pytest.raises(PlatformNotSupportedError, match="manifest has no platform block for host OS 'linux'"):
        choose(manifest, make_facts(), accelerator="cpu")


def test_blocks_that_share_an_artifact_need_no_choice() -> None:
    manifest = variant({"cpu": {}, "rocm": {}}, source=f"{URL}/a", sha256=pin("1"))

    assert choose(manifest, make_facts()).selection.path == "platforms.linux.cpu"


def test_a_block_without_an_artifact_is_no_choice_either() -> None:
    """What a launch would take here is the user's own; only --accelerator fetches the other."""
    manifest = variant({"cpu": {}, "rocm": {"source": f"{URL}/a", "sha256": pin("1")}})

    assert choose(manifest, make_facts()).artifact is None
    assert choose(manifest, make_facts(), accelerator="rocm").artifact == Artifact(
        source=f"{URL}/a", sha256=pin("1")
    )


@pytest.mark.parametrize(
    ("block", "override", "expected"),
    [
        ({}, {}, (f"{URL}/top", pin("1"))),
        ({"source": f"{URL}/block"}, {}, (f"{URL}/block", pin("1"))),
        ({"sha256": pin("2")}, {"source": f"{URL}/arch"}, (f"{URL}/arch", pin("2"))),
        ({"sha256": pin("2")}, {"sha256": pin("3")}, (f"{URL}/top", pin("3"))),
        ({"version_policy": "roll_forward"}, {}, (f"{URL}/top", None)),
        ({"version_policy": "roll_forward"}, {"version_policy": "pinned"}, (f"{URL}/top", pin("1"))),
        ({}, {"version_policy": "roll_forward", "source": f"{URL}/arch"}, (f"{URL}/arch", None)),
    ],
)
def test_what_is_said_nearest_counts(
    block: dict[str, Any], override: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    manifest = variant({"rocm": {**block, "arch": {"gfx*": override}}}, source=f"{URL}/top", sha256=pin("1"))

    choice = choose(manifest, make_facts(rocm_arch="gfx1100", accelerators=(Accelerator.ROCM,)))
    assert choice.artifact == Artifact(source=expected[0], sha256=expected[1])
