"""Models that lie in a folder, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from lemonpod.models.extra import find_extra
from lemonpod.models.registry import ModelRegistry


def lay(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"GGUF")


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["Qwen3-8B-Q4_K_M.gguf"], ["Qwen3-8B-Q4_K_M"]),
        (["Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf"], ["Qwen3-8B-GGUF"]),
        (["Q/a-Q4_K_M.gguf", "Q/a-Q8_0.gguf"], ["a-Q4_K_M", "a-Q8_0"]),
        (["Q/a-Q4-00001-of-00002.gguf", "Q/a-Q4-00002-of-00002.gguf"], ["Q"]),
        (["Q/a-Q4.gguf", "Q/mmproj-a-f16.gguf"], ["Q"]),
        (["A/m-Q4.gguf", "A/m-Q8.gguf", "B/m-Q4.gguf", "B/m-Q8.gguf"], ["m-Q4", "m-Q8", "B-m-Q4", "B-m-Q8"]),
        (["a.gguf", "a/x.gguf"], ["a", "a-a"]),
        (["x/a/m.gguf", "y/a/m.gguf", "z/a/m.gguf"], ["a", "a-a", "a-a-2"]),
        (["models--o--Repo/snapshots/abc/m.gguf"], ["Repo"]),
        (["models--o--Repo/snapshots/abc/Q4/m.gguf"], ["Repo-Q4"]),
        (["models--o--Repo/snapshots/abc/m.gguf", "models--o--Repo/snapshots/old/m.gguf"], ["Repo"]),
        (["chat/a.gguf", "chat/b.gguf", "embeddings/e.gguf"], ["a", "b", "e"]),
        ([".trash/m.gguf", "notes.txt", "m.gguf.part"], []),
    ],
)
def test_a_name_comes_from_the_surroundings(
    tmp_path: Path, files: list[str], names: list[str]
) -> None:  # M05
    lay(tmp_path, *files)
    for repo in tmp_path.glob("models--*"):
        (repo / "refs").mkdir()
        (repo / "refs" / "main").write_text("abc\n")
    assert list(find_extra(tmp_path)) == [f"extra.{name}" for name in names]


def test_a_model_says_what_it_is(tmp_path: Path) -> None:
    lay(tmp_path, "embeddings/deep/e.gguf", "V/v-Q4-00001-of-00002.gguf", "V/v-Q4-00002-of-00002.gguf")
    lay(tmp_path, "V/b-mmproj.gguf", "V/a-mmproj.gguf")
    models = find_extra(tmp_path)
    vision, embedding = models["extra.V"], models["extra.deep"]
    assert vision.labels == ("custom", "chat", "vision")
    assert (vision.recipe, vision.source, vision.suggested) == ("llamacpp", "extra_models_dir", True)
    assert {role: ref.text for role, ref in vision.checkpoints.items()} == {
        "main": f"{tmp_path}/V/v-Q4-00001-of-00002.gguf",
        "mmproj": f"{tmp_path}/V/a-mmproj.gguf",
    }
    assert embedding.labels == ("custom", "embeddings")


def test_a_projector_of_many_models_is_nobodys(tmp_path: Path) -> None:
    lay(tmp_path, "a.gguf", "b.gguf", "mmproj.gguf")
    assert all(entry.checkpoints.keys() == {"main"} for entry in find_extra(tmp_path).values())


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert find_extra(tmp_path / "no") == {}


def test_a_registered_model_goes_before_one_that_lies_there(tmp_path: Path) -> None:  # M15
    extra = tmp_path / "extra"
    lay(extra, "m.gguf", "n.gguf")
    (tmp_path / "user_models.json").write_text('{"m": {"checkpoint": "/x.gguf", "recipe": "r"}}')
    (tmp_path / "recipe_options.json").write_text('{"extra.n": {"ctx_size": 8}}')
    registry = ModelRegistry(tmp_path, extra_dir=extra)
    models = registry.load()
    found = {name: entry.id for name in ("m", "extra.m", "n", "N:latest") if (entry := models.find(name))}
    assert found == {"m": "user.m", "extra.m": "extra.m", "n": "extra.n", "N:latest": "extra.n"}
    assert models.entries["extra.n"].saved_options == {"ctx_size": 8}
    assert registry.load() is models
    lay(extra, "o.gguf")
    assert "extra.o" in registry.load().entries
