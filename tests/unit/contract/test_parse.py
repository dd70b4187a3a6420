"""A document that holds every rule, as a value."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import jsonschema
import pytest

from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.parse import parse_manifest, schema_text
from lemonpod.contract.vocabulary import (
    Accelerator,
    Capability,
    ModelManagement,
    Os,
    ProbeType,
    SlotPolicy,
    VersionPolicy,
)
from tests.factories import make_document


def test_a_bare_manifest_has_the_defaults_of_the_contract() -> None:
    manifest = parse_manifest(make_document())
    assert manifest.recipe == "test-engine"
    assert manifest.capabilities == (Capability.CHAT_COMPLETION, Capability.COMPLETION)
    assert manifest.probe == HealthProbe(
        type=ProbeType.HTTP, endpoint="/health", expected_status=200, timeout=90.0, interval=0.1
    )
    assert manifest.slot_policy is SlotPolicy.STANDARD
    assert manifest.model_management is ModelManagement.LEMOND_MANAGED
    assert manifest.default_accelerator is None
    assert manifest.version_policy is None
    block = manifest.platforms[Os.LINUX][Accelerator.CPU]
    assert str(block.command) == "/opt/engine"
    assert [str(argument) for argument in block.args or ()] == ["--port", "{port}"]
    assert block.stop_command is None
    assert dict(block.env) == {}


def test_times_become_seconds() -> None:
    document = make_document(health_probe={"type": "tcp", "timeout_seconds": 5, "poll_interval_ms": 250})
    assert parse_manifest(document).probe == HealthProbe(type=ProbeType.TCP, timeout=5.0, interval=0.25)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    probe = parse_manifest(make_document(health_probe={"expected_status": 204.0})).probe
    assert probe.expected_status == 204
    assert isinstance(probe.expected_status, int)


def test_an_arch_override_says_only_what_it_says() -> None:
    cpu = {
        "command": "engine",
        "args": ["-a"],
        "env": {"A": "1", "B": "1"},
        "arch": {"gfx1151": {"args": [], "env": {"B": "2"}}},
    }
    block = parse_manifest(make_document(platforms={"linux": {"cpu": cpu}})).platforms[Os.LINUX][
        Accelerator.CPU
    ]
    override = block.arch["gfx1151"]
    assert override.command is None
    merged = block.merged_with(override)
    assert str(merged.command) == "engine"
    assert merged.args == ()
    assert {name: str(value) for name, value in merged.env.items()} == {"A": "1", "B": "2"}


def test_a_variant_keeps_its_provenance() -> None:
    digest = f"sha256:{'a' * 64}"
    document = make_document(
        variant_of="llamacpp",
        source="https://example.invalid/a.tar.gz",
        sha256=digest,
        platforms={"linux": {"cpu": {"binary": "llama-server", "version_policy": "roll_forward"}}},
    )
    manifest = parse_manifest(document)
    assert (manifest.variant_of, manifest.sha256) == ("llamacpp", digest)
    block = manifest.platforms[Os.LINUX][Accelerator.CPU]
    assert block.version_policy is VersionPolicy.ROLL_FORWARD
    assert block.source is None


def test_the_manifest_is_frozen_and_apart_from_its_document() -> None:
    document = make_document(recipe_options={"a": 1}, endpoints={"completion": "/x"})
    manifest = parse_manifest(document)
    document["recipe_options"]["a"] = 2
    assert manifest.recipe_options["a"] == 1
    with pytest.raises(FrozenInstanceError):
        manifest.recipe = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        manifest.platforms[Os.LINUX] = {}  # type: ignore[index]


@pytest.mark.parametrize("name", ["exec_block", "arch_override"])
def test_an_arch_override_has_the_fields_of_a_block(name: str) -> None:
    definitions = json.loads(schema_text())["$defs"]
    assert set(definitions[name]["properties"]) | {"arch"} == set(definitions["exec_block"]["properties"])


def test_the_schema_is_one_and_closed_at_every_level_but_the_open_ones() -> None:
    schema = json.loads(schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    open_objects = []

    def visit(node: Any, path: str) -> None:
        if isinstance(node, dict):
            if "properties" in node and node.get("additionalProperties") is not False:
                open_objects.append(path)
            for key, child in node.items():
                visit(child, f"{path}/{key}")

    visit(schema, "")
    assert open_objects == []


def test_the_vocabulary_and_the_schema_say_the_same_words() -> None:
    schema = json.loads(schema_text())
    definitions = schema["$defs"]
    assert definitions["capability"]["enum"] == list(Capability)
    assert definitions["accelerator"]["enum"] == list(Accelerator)
    assert definitions["os"]["enum"] == list(Os)
    assert definitions["version_policy"]["enum"] == list(VersionPolicy)
    assert schema["properties"]["slot_policy"]["enum"] == list(SlotPolicy)
    assert schema["properties"]["model_management"]["enum"] == list(ModelManagement)
    assert definitions["health_probe"]["properties"]["type"]["enum"] == list(ProbeType)


def test_importing_the_parser_imports_no_json_schema() -> None:
    code = (
        "import sys, lemonpod.contract.parse, lemonpod.discovery.catalog;"
        "sys.exit('jsonschema' in sys.modules or 'yaml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
