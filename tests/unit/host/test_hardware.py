"""Every machine of tests/data/hardware gives the facts that are expected of it, as does the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lemonpod.cli.app import app
from lemonpod.host.detect import detect
from lemonpod.host.document import open_tree
from lemonpod.host.facts import HostFacts
from tests.hardware import FILES

# Of a GPU or an NPU, what the machines' documents say and a manifest or an engine never asks for.
NOT_FACTS = {
    "platform_device",
    "wsl",
    "accelerators_if_arch_configured",
    "name_if_product_name_read",
    "why_not",
}


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def file(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def expected(file: Path) -> dict[str, Any]:
    expect: dict[str, Any] = json.loads(file.read_bytes())["expect"]
    for gpu in expect["gpus"]:
        # Boards that name themselves do it in this file, which is there to be read.
        gpu["name"] = gpu["name"] or gpu.get("name_if_product_name_read")
    return expect


@pytest.fixture
def facts(file: Path) -> HostFacts:
    return detect(open_tree(file))


def said(things: Any, expectations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each thing what is expected of it."""
    assert len(things) == len(expectations)
    return [
        {name: getattr(thing, name) for name in expectation.keys() - NOT_FACTS}
        for thing, expectation in zip(things, expectations, strict=True)
    ]


def facts_in(expectations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: one[name] for name in one.keys() - NOT_FACTS} for one in expectations]


def test_gpus_in_their_order(facts: HostFacts, expected: dict[str, Any]) -> None:
    assert said(facts.gpus, expected["gpus"]) == facts_in(expected["gpus"])
    assert [gpu.why_not is None for gpu in facts.gpus] == [gpu["why_not"] is None for gpu in expected["gpus"]]


def test_npus(facts: HostFacts, expected: dict[str, Any]) -> None:
    assert said(facts.npus, expected["npus"]) == facts_in(expected["npus"])


def test_accelerators_in_their_order(facts: HostFacts, expected: dict[str, Any]) -> None:
    assert list(facts.accelerators) == expected["accelerators_in_order"]


def test_what_is_passed_over(facts: HostFacts, expected: dict[str, Any]) -> None:
    ours = {one.what for one in facts.passed_over}
    theirs = {one["what"] for one in expected["ignored"]}
    # One line stands for several partitions there.
    theirs = {what for what in theirs if ".." not in what}
    assert theirs <= ours
    assert all(one.why for one in facts.passed_over)


def test_the_system(facts: HostFacts, expected: dict[str, Any]) -> None:
    host = expected["host"]
    assert facts.machine == host["machine"]
    assert facts.os_version == f"Linux-{host['kernel']} ({host['os']})"
    assert facts.cpu_name == host["cpu_model"]
    assert facts.memory_bytes == host["memory_bytes"]


def test_the_command_says_the_same(file: Path, facts: HostFacts, expected: dict[str, Any]) -> None:
    result = CliRunner().invoke(app, ["host", "--root", str(file), "--json"])

    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert (shown["os"], shown["machine"]) == ("linux", expected["host"]["machine"])
    assert shown["accelerators"] == expected["accelerators_in_order"]
    for ours, theirs in zip(shown["gpus"], expected["gpus"], strict=True):
        names = {
            *("vendor", "arch", "name", "pci_address", "render_node", "memory_bytes", "memory_kind"),
            *("integrated", "driver"),
        }
        assert {name: ours[name] for name in names} == {name: theirs[name] for name in names}
    assert [npu["pci_address"] for npu in shown["npus"]] == [npu["pci_address"] for npu in expected["npus"]]
    assert shown["why"].keys() >= {"cuda", "rocm", "vulkan", "gpu", "cpu"}


def test_the_command_shows_it_to_people(file: Path, facts: HostFacts) -> None:
    result = CliRunner().invoke(app, ["host", "--root", str(file)])

    assert result.exit_code == 0, result.output
    for gpu in facts.gpus:
        assert str(gpu) in result.output
    for one in facts.passed_over:
        assert one.what in result.output
    offered = [
        line.split()[1].rstrip(":") for line in result.output.splitlines() if line.startswith("  yes ")
    ]
    assert offered == list(facts.accelerators)
