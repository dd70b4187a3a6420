"""`manifest validate`: what discovery would refuse, and what would only fail at load."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.vocabulary import BUILTIN_RECIPES
from lemonpod.discovery.validate import FileReport, validate_files
from tests.unit.discovery.conftest import EUID, Machine


def validated(machine: Machine, *files: Path) -> tuple[FileReport, ...]:
    return validate_files(files, machine.scan(), paths=machine.paths, builtin=BUILTIN_RECIPES, euid=EUID)


def findings(machine: Machine, *files: Path) -> list[str]:
    return [problem.message for report in validated(machine, *files) for problem in report.problems]


@pytest.fixture
def draft(machine: Machine) -> Path:
    """A file in no discovery directory."""
    return machine.root / "draft.json"


def variant_of(base: str) -> dict[str, Any]:
    return {"variant_of": base, "platforms": {"linux": {"cpu": {"binary": "engine"}}}}


def test_a_good_file_has_no_findings(machine: Machine, draft: Path) -> None:
    (report,) = validated(machine, machine.write(draft))
    assert report.problems == ()
    assert report.manifest is not None
    assert report.manifest.recipe == "test-engine"


def test_the_problems_of_every_file_are_found(machine: Machine, draft: Path) -> None:
    broken = machine.write(machine.root / "broken.yaml", "a: [")
    wrong = machine.write(draft, colour=1)
    first, second = validated(machine, broken, wrong)
    assert first.manifest is second.manifest is None
    assert first.problems[0].message.startswith("invalid YAML")
    assert second.problems[0].message == "unknown field 'colour' in manifest"


@pytest.mark.parametrize("base", ["llamacpp", "whispercpp", "sd-cpp"])
def test_a_base_with_a_launch_plan_is_fine(machine: Machine, draft: Path, base: str) -> None:
    assert findings(machine, machine.write(draft, **variant_of(base))) == []


def test_a_base_without_a_launch_plan_would_fail_at_load(machine: Machine, draft: Path) -> None:
    machine.write(machine.config / "other.json", recipe="other")
    bases = "supported bases: llamacpp, whispercpp, sd-cpp"
    assert findings(machine, machine.write(draft, **variant_of("other"))) == [
        f"variant_of must name a built-in backend; 'other' is an external recipe ({bases})"
    ]
    assert findings(machine, machine.write(draft, **variant_of("nowhere"))) == [
        f"variant_of base 'nowhere' is not a built-in backend ({bases})"
    ]
    assert findings(machine, machine.write(draft, **variant_of("flm"))) == [
        f"built-in 'flm' does not expose a launch plan yet; {bases}"
    ]


def test_a_base_may_be_installed_or_given_beside_the_file(machine: Machine, draft: Path) -> None:
    child = machine.write(draft, recipe="child", extends="base")
    nowhere = "cannot resolve extends 'base': no accepted manifest has that recipe"
    assert findings(machine, child) == [nowhere]
    base = machine.write(machine.root / "base.json", recipe="base")
    assert findings(machine, child, base) == []
    machine.write(machine.config / "base.json", recipe="base")
    assert findings(machine, child) == []


def test_an_edit_that_would_close_a_cycle_is_found(machine: Machine, draft: Path) -> None:
    machine.write(machine.config / "aa.json", recipe="aa")
    machine.write(machine.config / "bb.json", recipe="bb", extends="aa")
    edited = machine.write(draft, recipe="aa", extends="bb")
    assert findings(machine, edited) == ["cannot resolve extends 'bb': a cycle, aa -> bb -> aa"]


def test_a_built_in_name_is_found(machine: Machine, draft: Path) -> None:
    assert findings(machine, machine.write(draft, recipe="llamacpp")) == [
        "recipe 'llamacpp' collides with a built-in backend"
    ]


@pytest.mark.parametrize(
    ("block", "location", "message"),
    [
        ({"args": ["{pid}"]}, "args[0]", "token '{pid}' has no value"),
        ({"env": {"A": "{pid}"}}, "env.A", "token '{pid}' has no value"),
        ({"args": ["--x={custom_args}"]}, "args[0]", "token '{custom_args}' has no value"),
        ({"env": {"A": "{custom_args}"}}, "env.A", "token '{custom_args}' has no value"),
        ({"args": ["{env:HOME}"]}, "args[0]", "environment variable 'HOME' is not resolvable"),
        (
            {"arch": {"gfx1151": {"env": {"A": "{env:API_KEY:-x}"}}}},
            "arch.gfx1151.env.A",
            "environment variable 'API_KEY' is not resolvable",
        ),
    ],
)
def test_a_token_that_can_never_have_a_value_is_found(
    machine: Machine, draft: Path, block: dict[str, Any], location: str, message: str
) -> None:
    cpu = {"command": "engine", "args": [], **block}
    (report,) = validated(machine, machine.write(draft, platforms={"windows": {"cpu": cpu}}))
    (problem,) = report.problems
    assert (problem.location, problem.message) == (f"platforms.windows.cpu.{location}", message)


def test_tokens_where_they_have_values_are_fine(machine: Machine, draft: Path) -> None:
    cpu = {
        "command": "engine",
        "args": ["{custom_args}", "{env:HF_HOME}"],
        "stop_command": "kill",
        "stop_command_args": ["-9", "{pid}"],
    }
    assert findings(machine, machine.write(draft, platforms={"linux": {"cpu": cpu}})) == []


def test_an_untrusted_file_is_told_beside_what_is_wrong_in_it(machine: Machine) -> None:
    file = machine.write(machine.config / "x.json", colour=1)
    file.chmod(0o666)
    machine.config.chmod(0o777)
    assert findings(machine, file) == [
        f"ancestor directory '{machine.config}' is group/world writable without the sticky bit",
        "file is group or world writable (mode & 0022)",
        "unknown field 'colour' in manifest",
    ]


def test_a_file_in_place_is_told_what_it_collides_with(machine: Machine) -> None:
    machine.write(machine.config / "a.json")
    second = machine.write(machine.config / "b.json")
    (problem,) = (problem for report in validated(machine, second) for problem in report.problems)
    assert problem.message == "recipe 'test-engine' already provided by a higher-priority path"
    assert problem.hint == f"by {machine.config / 'a.json'}"


def test_a_draft_may_lie_in_a_folder_that_others_write_to(machine: Machine, draft: Path) -> None:
    machine.root.chmod(0o777)
    assert findings(machine, machine.write(draft)) == []


def test_a_relative_path_is_told_as_it_was_given(
    machine: Machine, draft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write(draft)
    monkeypatch.chdir(draft.parent)
    (report,) = validated(machine, Path("draft.json"))
    assert report.path == Path("draft.json")
    assert report.manifest is not None


def test_what_is_no_file_is_a_finding(machine: Machine, draft: Path) -> None:
    fifo = machine.root / "fifo.json"
    os.mkfifo(fifo)
    assert findings(machine, draft) == ["cannot open file: No such file or directory"]
    assert findings(machine, fifo) == ["not a regular file"]
    assert findings(machine, machine.config) == ["not a regular file"]


def test_stop_arguments_without_a_stop_command_have_no_effect(machine: Machine, draft: Path) -> None:
    def told(**block: Any) -> list[str]:
        cpu = {"command": "engine", "args": [], "stop_command_args": ["-9"], **block}
        (report,) = validated(machine, machine.write(draft, platforms={"linux": {"cpu": cpu}}))
        return [problem.location for problem in report.problems]

    assert told() == ["platforms.linux.cpu.stop_command_args"]
    assert told(stop_command="kill") == []
    assert told(arch={"gfx1": {"stop_command": "kill"}}) == []
    other = {"gfx1": {"stop_command_args": ["-2"]}}
    assert told(stop_command="kill", arch=other) == []
    assert told(arch=other)[1] == "platforms.linux.cpu.arch.gfx1.stop_command_args"


def test_a_program_that_only_a_shell_would_find_is_a_finding(machine: Machine, draft: Path) -> None:
    cpu = {"command": "~/engine", "args": ["~/this-is-just-text"], "stop_command": "~/stop"}
    (report,) = validated(machine, machine.write(draft, platforms={"linux": {"cpu": cpu}}))

    assert [problem.location for problem in report.problems] == [
        "platforms.linux.cpu.command",
        "platforms.linux.cpu.stop_command",
    ]
