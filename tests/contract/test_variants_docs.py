"""The page about variants says what the backends are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lemonpod.launch.bases.base import Base
from lemonpod.launch.bases.table import BASES

PAGE = (Path(__file__).parents[2] / "docs/reference/variants.md").read_text(encoding="utf-8")


def row(base: Base, name: str) -> str:
    """A row of the backend's own table."""
    section = PAGE.split(f"\n## {base.recipe}\n", 1)[1].split("\n## ", 1)[0]
    found = re.search(rf"^\| {name} \| (.*) \|$", section, re.MULTILINE)
    assert found is not None, name
    return found[1]


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_a_backends_table_is_what_it_is(base: Base) -> None:
    assert quoted(row(base, "program")) == {base.program}
    assert quoted(row(base, "section")) == {base.section}
    assert quoted(row(base, "ready")) == {base.probe.endpoint}
    assert quoted(row(base, "own paths")) == set(base.engine_paths.values())
    assert quoted(row(base, "kept to itself")) == base.reserved | base.reserved_if_used
    options = {option.name for option in base.options} | base.renamed.keys()
    assert quoted(row(base, "options")) - {"ctx_size"} == options


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_a_default_is_told(base: Base) -> None:
    for option in base.options:
        if option.default is not None:
            assert f"`{option.name}` ({option.default})" in row(base, "options")


def test_every_accelerators_key_is_told() -> None:
    names = {name for base in BASES.values() for known in base.accelerators.values() for name in known}
    assert all(f"`{name}_bin`" in PAGE for name in names)
