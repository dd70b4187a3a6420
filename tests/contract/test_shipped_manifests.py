"""The manifests that come with lemonpod hold their own rules, and say what their programs really take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.parse import parse_manifest
from lemonpod.contract.vocabulary import BUILTIN_RECIPES, Accelerator, Os
from lemonpod.demo.llama_flags import OPTIONS, SWITCHES

FOLDER = Path(__file__).parents[2] / "manifests"
FILES = sorted(FOLDER.glob("*.json"))


def load(path: Path) -> Manifest:
    return parse_manifest(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_valid_and_named_after_its_recipe(path: Path) -> None:
    manifest = load(path)

    assert path.stem == manifest.recipe
    assert manifest.recipe not in BUILTIN_RECIPES


def test_the_readme_lists_every_file_and_no_other() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")

    for path in FILES:
        assert f"| `{path.name}` | `{path.stem}` |" in text
    assert text.count(".json` | `") == len(FILES)


def test_every_flag_for_our_own_program_is_one_that_it_knows() -> None:
    manifest = load(FOLDER / "llama-cpu.json")
    known = {name for flag in (*OPTIONS, *SWITCHES) for name in flag.names} | {"-h", "--help"}
    block = manifest.platforms[Os.LINUX][Accelerator.CPU]
    assert block.args is not None
    texts = [str(text) for text in block.args]
    texts += [str(text) for texts in manifest.capability_enable_args.values() for text in texts]

    assert {text for text in texts if text.startswith("-")} <= known
    assert set(manifest.reserved_args) <= known
