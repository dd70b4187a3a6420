"""The reference page says what the contract says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.parse import parse_manifest, schema_text
from lemonpod.contract.tokens import CHECKPOINT_TOKENS, DEFAULTED_TOKENS, FIXED_TOKENS, parse_template
from lemonpod.contract.vocabulary import (
    BUILTIN_RECIPES,
    CAPABILITIES,
    RESOLVABLE_ENV,
    Accelerator,
    Capability,
    Os,
    SlotPolicy,
    is_loader_variable,
)
from lemonpod.discovery.paths import Scope, discovery_paths
from lemonpod.discovery.read import MAX_BYTES, read_document
from lemonpod.discovery.tree import MAX_DEPTH, MAX_NUMBER

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "manifest.md").read_text("utf-8")
SCHEMA = json.loads(schema_text())
OBJECTS = {
    "Top level": SCHEMA,
    "Execution block": SCHEMA["$defs"]["exec_block"],
    "Health probe": SCHEMA["$defs"]["health_probe"],
    "Custom option": SCHEMA["$defs"]["custom_option"],
}


def section(title: str) -> str:
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert isinstance(text, str)
    return text


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def words(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def default_of(schema: dict[str, Any]) -> object:
    target = SCHEMA["$defs"][schema["$ref"].split("/")[-1]] if "$ref" in schema else {}
    return {**target, **schema}.get("default")


@pytest.mark.parametrize("title", OBJECTS)
def test_every_field_is_there_with_its_default(title: str) -> None:
    schema = OBJECTS[title]
    described = {words(name)[0]: (required, default) for name, required, default, _ in rows(title)}
    assert set(described) == set(schema["properties"])
    required = {name for name, (marked, _) in described.items() if marked == "yes"}
    assert required == set(schema.get("required", ()))
    for name, (_, shown) in described.items():
        default = default_of(schema["properties"][name])
        assert shown == ("" if default is None else f"`{default}`"), name


def test_the_closed_words_are_listed() -> None:
    text = section("Top level")
    for word in (*Os, *Accelerator, *SlotPolicy):
        assert f"`{word}`" in text


def test_the_tokens_are_the_vocabulary() -> None:
    listed = [word for row in rows("Tokens") for word in words(row[0])]
    tokens = [token for word in listed for token in parse_template(word).tokens]
    assert {token.name for token in tokens} == FIXED_TOKENS | CHECKPOINT_TOKENS | DEFAULTED_TOKENS
    assert {token.name for token in tokens if token.default is not None} == DEFAULTED_TOKENS
    assert len(listed) == len(set(listed))


def test_the_readable_variables_are_listed() -> None:
    (row,) = (row for row in rows("Tokens") if "{env:NAME}" in row[0])
    assert set(words(row[1])) == RESOLVABLE_ENV


def test_the_capability_table_is_the_one_that_routes_are_built_from() -> None:
    expected = []
    for capability, spec in CAPABILITIES.items():
        only = " (`variant_of` only)" if spec.variant_only else ""
        routes = " ".join(f"{route.method} `{route.path}`" for route in spec.routes)
        mode = f"`{spec.mode}`" if spec.mode else ""
        expected.append([f"`{capability}`", f"{spec.kind}{only}", mode, routes])
    assert rows("Capabilities") == expected
    assert list(CAPABILITIES) == list(Capability)


def test_the_directories_are_those_that_are_scanned() -> None:
    described = {words(scope)[0]: words(directories) for scope, directories, _ in rows("Directories")}
    assert list(described) == list(Scope)
    paths = discovery_paths({}, os=Os.LINUX, shipped=Path("/x"))
    assert described["system"] == [str(path) for path in paths.system]


def test_the_limits_are_those_of_the_reader() -> None:
    text = section("Files")
    assert f"at most {MAX_BYTES >> 20} MiB" in text
    assert f"at most {MAX_DEPTH} levels" in text
    assert f"{MAX_NUMBER} characters" in text


def test_the_refused_and_taken_names_are_listed() -> None:
    assert set(words(section("Built-in names"))) == BUILTIN_RECIPES
    loader = [word for word in words(section("Loader variables")) if word != "env"]
    assert all(is_loader_variable(f"{word}X" if word.endswith("_") else word) for word in loader)
    assert not is_loader_variable("OLD_PATH")


def test_the_example_is_a_manifest() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert parse_manifest(read_document(example.encode(), suffix=".yaml")).recipe == "my-engine"
