"""The worked examples of RFC section 13: they mean what its text says, and what it rules out is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.inherit import resolve_extends
from lemonpod.contract.manifest import Block, Manifest
from lemonpod.contract.parse import parse_manifest
from lemonpod.contract.tokens import Token
from lemonpod.contract.vocabulary import Accelerator, Capability, Os, VersionPolicy
from lemonpod.discovery.read import read_document
from lemonpod.errors import ManifestError

DATA = Path(__file__).parents[1] / "data" / "manifests"
VALID = sorted((DATA / "valid").iterdir())
INVALID = sorted(path for path in (DATA / "invalid").iterdir() if path.suffix != ".expected")


def load(path: Path) -> Manifest:
    return parse_manifest(read_document(path.read_bytes(), suffix=path.suffix))


def document_of(name: str) -> Any:
    return json.loads((DATA / "valid" / name).read_text())


def refusal(document: object) -> str:
    with pytest.raises(ManifestError) as refused:
        parse_manifest(document)
    return "\n".join(str(problem) for problem in refused.value.problems)


def texts(templates: Any) -> list[str]:
    return [str(template) for template in templates or ()]


def block_of(manifest: Manifest, system: Os, accelerator: Accelerator) -> Block:
    return manifest.platforms[system][accelerator]


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.name)
def test_a_valid_manifest_is_accepted(path: Path) -> None:
    assert load(path).recipe


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.name)
def test_an_invalid_manifest_is_refused_in_these_words(path: Path) -> None:
    with pytest.raises(ManifestError) as refused:
        load(path)
    expected = path.with_suffix(f"{path.suffix}.expected").read_text("utf-8")
    assert "".join(f"{problem}\n" for problem in refused.value.problems) == expected


def test_13_1_a_passthrough_engine_is_run_as_written_and_fetched_by_nobody() -> None:
    manifest = load(DATA / "valid" / "vulkan-custom.json")
    block = block_of(manifest, Os.LINUX, Accelerator.VULKAN)
    assert manifest.variant_of is None
    assert manifest.source is block.source is None
    assert str(block.command) == "/opt/lemonade/bin/llamacpp/vulkan/llama-server"
    assert texts(block.args)[:4] == ["-m", "{checkpoint:main}", "--host", "{host}"]
    assert block.env["GGML_VK_VISIBLE_DEVICES"].only_token == Token("custom", "vk_device", "0")
    assert texts(block.stop_command_args) == ["-9", "{pid}"]
    assert (manifest.probe.timeout, manifest.probe.interval) == (60.0, 0.2)


def test_13_1_a_source_belongs_to_a_variant() -> None:
    document = document_of("vulkan-custom.json")
    document["platforms"]["linux"]["vulkan"]["source"] = "https://example.invalid/x"
    assert "with 'variant_of'" in refusal(document)


def test_13_2_a_container_is_a_command_and_its_stop_command_no_pipeline() -> None:
    manifest = load(DATA / "valid" / "dflash-rocm.json")
    block = block_of(manifest, Os.LINUX, Accelerator.ROCM)
    assert str(block.command) == "podman"
    assert any("@sha256:" in argument for argument in texts(block.args))
    stop = [str(block.stop_command), *texts(block.stop_command_args)]
    assert stop == ["podman", "rm", "-f", "-t", "0", "lemonade-{recipe}-{port}"]


def test_13_2_nothing_enforces_the_digest() -> None:
    document = document_of("dflash-rocm.json")
    args = document["platforms"]["linux"]["rocm"]["args"]
    document["platforms"]["linux"]["rocm"]["args"] = [arg.split("@sha256:")[0] for arg in args]
    parse_manifest(document)


@pytest.mark.parametrize("name", ["dflash-rocm.json", "arch-alias.json", "arch-overrides.json"])
def test_13_as_printed_without_their_display_name_they_are_refused(name: str) -> None:
    document = document_of(name)
    del document["display_name"]
    assert refusal(document) == "missing required field 'display_name'"


def test_13_3_a_variant_names_its_artifact_and_the_forks_own_flags() -> None:
    manifest = load(DATA / "valid" / "rocm-nightly.json")
    block = block_of(manifest, Os.LINUX, Accelerator.ROCM)
    assert manifest.variant_of == "llamacpp"
    assert manifest.version_policy is VersionPolicy.PINNED
    assert Capability.EMBEDDINGS in manifest.capabilities
    assert block.binary == "llama-server"
    assert texts(block.argv_extra) == ["--gpu-layers", "{custom:gpu_layers:-0}"]
    assert block.reserved_args == ("--port", "--host", "-m")
    assert block.command is None


def test_13_3_pinned_by_a_hash_needs_the_hash_and_rolling_forward_does_not() -> None:
    document = document_of("rocm-nightly.json")
    del document["sha256"]
    assert "requires 'sha256'" in refusal(document)
    del document["version_policy"]
    assert "requires 'sha256'" in refusal(document)
    parse_manifest({**document, "version_policy": "roll_forward"})


def test_13_3_a_variant_extends_nothing() -> None:
    assert "mutually exclusive" in refusal({**document_of("rocm-nightly.json"), "extends": "other"})


def test_13_4_every_block_carries_its_own_artifact() -> None:
    manifest = load(DATA / "valid" / "per-platform.json")
    assert manifest.source is None
    linux = manifest.platforms[Os.LINUX]
    assert list(linux) == [Accelerator.ROCM, Accelerator.CUDA, Accelerator.CPU]
    assert len({block.source for block in linux.values()}) == 3
    assert block_of(manifest, Os.WINDOWS, Accelerator.CUDA).binary == "llama-server.exe"


def test_13_4_the_block_without_a_hash_is_the_one_that_is_named() -> None:
    document = document_of("per-platform.json")
    del document["platforms"]["linux"]["cuda"]["sha256"]
    assert refusal(document).startswith("'platforms.linux.cuda' fetches an artifact and requires 'sha256'")


def test_13_5_an_alias_is_written_once() -> None:
    manifest = load(DATA / "valid" / "arch-alias.json")
    assert dict(manifest.arch_aliases) == {"gfx1151": "strix-halo", "gfx1150": "strix-point"}
    args = block_of(manifest, Os.LINUX, Accelerator.VULKAN).args or ()
    assert Token("arch_alias") in args[2].tokens


def test_13_5_an_override_names_its_artifact_and_its_deltas_only() -> None:
    block = block_of(load(DATA / "valid" / "arch-overrides.json"), Os.LINUX, Accelerator.ROCM)
    exact = block.merged_with(block.arch["gfx1151"])
    others = block.merged_with(block.arch["gfx115*"])
    assert texts(exact.argv_extra) == ["--mtp"]
    assert texts(others.argv_extra) == ["--device-name", "{arch_alias}"]
    assert exact.binary == others.binary == "llama-server"
    assert (exact.source, others.source) == (
        "https://example.invalid/gfx1151.tar.gz",
        "https://example.invalid/gfx115x.tar.gz",
    )


def test_13_5_an_override_without_a_hash_is_named() -> None:
    document = document_of("arch-overrides.json")
    del document["platforms"]["linux"]["rocm"]["arch"]["gfx115*"]["sha256"]
    assert refusal(document).startswith("'platforms.linux.rocm.arch.gfx115*' fetches an artifact")


def test_an_example_that_extends_takes_the_options_of_its_base() -> None:
    manifests = {manifest.recipe: manifest for manifest in map(load, VALID)}
    resolved, dropped = resolve_extends(manifests)
    assert not dropped
    child = resolved["everything-child"]
    assert child.recipe_options["layers"] == 10
    assert child.recipe_options["pooling"] == "mean"
    assert [option.name for option in child.custom_options] == ["pooling"]
    assert child.capabilities == (Capability.CHAT_COMPLETION,)


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.name)
def test_no_example_may_hold_one_more_field_at_any_level(path: Path) -> None:
    document = read_document(path.read_bytes(), suffix=path.suffix)
    open_fields = {"recipe_options", "extensions"}
    keyed = {"env", "arch", "endpoints", "capability_enable_args", "arch_aliases", "platforms"}

    def objects(node: Any, steps: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if not isinstance(node, dict | list) or (steps and steps[-1] in open_fields):
            return []
        items = node.items() if isinstance(node, dict) else enumerate(node)
        below = [place for key, child in items for place in objects(child, (*steps, key))]
        is_map = bool(steps) and (steps[-1] in keyed or steps[-2:-1] == ("platforms",))
        return below + ([steps] if isinstance(node, dict) and not is_map else [])

    for steps in objects(document, ()):
        changed = copy.deepcopy(document)
        node: Any = changed
        for step in steps:
            node = node[step]
        node["one_more"] = 1
        assert "unknown field 'one_more'" in refusal(changed)
