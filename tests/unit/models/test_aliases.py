"""Further names for models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lemonpod.errors import ConfigError
from lemonpod.models.aliases import add_alias, remove_alias
from lemonpod.models.registry import ModelRegistry, Models


def models(folder: Path) -> Models:
    (folder / "user_models.json").write_text('{"m": {"checkpoint": "/x.gguf", "recipe": "r"}}')
    return ModelRegistry(folder, cache_dir=folder).load()


def test_an_alias_stands_for_a_model_and_never_hides_one(tmp_path: Path) -> None:
    file = tmp_path / "aliases.json"
    add_alias(file, "fast", "m")
    add_alias(file, "m", "user.other")
    add_alias(file, "later", "user.other")
    add_alias(file, "team/fast", "user.m")
    found = models(tmp_path)
    named = {name: entry and entry.id for name in ("fast", "fast:latest", "m", "later", "team/fast")
             for entry in [found.find(name)]}  # fmt: skip
    assert named == {
        "fast": "user.m",
        "fast:latest": "user.m",
        "m": "user.m",
        "later": None,
        "team/fast": "user.m",
    }
    assert [name for name in ("fast", "m", "none") if found.is_alias(name)] == ["fast"]
    add_alias(file, "fast", "user.other")
    assert remove_alias(file, "later")
    assert not remove_alias(file, "later")
    assert json.loads(file.read_text()) == {"fast": "user.other", "m": "user.other", "team/fast": "user.m"}


def test_an_alias_of_an_alias_is_none(tmp_path: Path) -> None:
    add_alias(tmp_path / "aliases.json", "a", "m")
    add_alias(tmp_path / "aliases.json", "b", "a")
    assert models(tmp_path).find("b") is None


@pytest.mark.parametrize("alias", ["", " a", "user.a", "Extra.a", "builtin.a", "a\nb", "a//b", "../a"])
def test_what_no_alias_can_be(tmp_path: Path, alias: str) -> None:
    with pytest.raises(ConfigError, match="invalid alias"):
        add_alias(tmp_path / "aliases.json", alias, "m")


def test_what_is_odd_in_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "aliases.json").write_text('{"a": 1, "b": "m"}')
    found = models(tmp_path)
    assert dict(found.aliases) == {"b": "m"}
    assert [problem.message for problem in found.problems] == ["must be the name of a model"]
    (tmp_path / "aliases.json").write_text("{")
    assert models(tmp_path).problems[0].location == str(tmp_path / "aliases.json")
