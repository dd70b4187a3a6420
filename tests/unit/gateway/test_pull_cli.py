"""The commands for models, against a whole gateway and a stand-in of the hub."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from lemonpod.cli.app import EXIT_ENVIRONMENT, EXIT_FINDINGS, EXIT_OK, EXIT_USAGE, run
from tests.hub_site import HubSite, Repo
from tests.unit.gateway.world import RECIPE, World


@pytest.fixture(autouse=True)
def repos(site: HubSite) -> None:
    site.repos["org/repo"] = Repo({"m-Q4_0.gguf": b"GGUF4", "m-Q8_0.gguf": b"GGUF8"})
    site.repos["org/vision"] = Repo({"v-Q4_0.gguf": b"GGUFv", "mmproj-F16.gguf": b"GGUFp"})


async def lemonpod(world: World, *arguments: str) -> int:
    return await asyncio.to_thread(run, [*arguments, "--host", "127.0.0.1", "--port", str(world.port)])


def registered(world: World) -> dict[str, object]:
    found: dict[str, object] = json.loads((world.folder / "user_models.json").read_text())
    return found


async def test_a_model_comes_and_goes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    pulled = await lemonpod(
        world, "pull", "new", "--recipe", RECIPE, "--checkpoint", "main", "org/repo:Q8_0", "--label", "chat"
    )
    assert (pulled, capsys.readouterr().out) == (EXIT_OK, "Installed model: user.new\n")
    assert registered(world)["new"] == {"checkpoint": "org/repo:Q8_0", "recipe": RECIPE, "labels": ["chat"]}
    assert await lemonpod(world, "pull", "new", "--no-upgrade") == EXIT_OK
    assert await lemonpod(world, "delete", "new") == EXIT_OK
    assert capsys.readouterr().out.endswith("Deleted model: user.new\n")
    assert list(registered(world)) == ["m"]
    assert await lemonpod(world, "delete", "new") == EXIT_FINDINGS
    assert "was not found" in capsys.readouterr().err


async def test_a_repository_is_described_by_what_it_holds(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await lemonpod(world, "pull", "org/vision") == EXIT_OK
    assert registered(world)["vision"] == {
        "checkpoints": {"main": "org/vision:Q4_0", "mmproj": "org/vision:mmproj-F16.gguf"},
        "recipe": "llamacpp",
        "labels": ["vision"],
    }
    assert await lemonpod(world, "pull", "org/repo") == EXIT_USAGE
    err = capsys.readouterr().err
    assert "'org/repo' has several variants: Q8_0, Q4_0" in err
    assert await lemonpod(world, "pull", "org/repo:Q4_0") == EXIT_OK
    assert "repo" in registered(world)
    assert await lemonpod(world, "pull", "org/repo:Q8_0", "--recipe", RECIPE) == EXIT_OK
    assert registered(world)["repo"] == {"checkpoint": "org/repo:Q8_0", "recipe": RECIPE}


async def test_a_model_without_the_file_that_its_recipe_asks_for_is_refused(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    before = registered(world)
    for name in ("new", "m"):
        assert await lemonpod(world, "pull", name, "--recipe", "llamacpp") == EXIT_FINDINGS
        assert "recipe 'llamacpp' asks for the model's file" in capsys.readouterr().err
    assert await lemonpod(world, "pull", "m", "--label", "vision") == EXIT_USAGE
    assert registered(world) == before


async def test_a_model_is_handed_on(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await lemonpod(world, "pull", "new", "--recipe", RECIPE, "--checkpoint", "main", "org/repo:Q4_0")
    file = tmp_path / "new.json"
    assert await lemonpod(world, "export", "new", "--output", str(file)) == EXIT_OK
    capsys.readouterr()
    assert await lemonpod(world, "export", "new") == EXIT_OK
    assert (
        json.loads(capsys.readouterr().out)
        == json.loads(file.read_text())
        == {
            "model_name": "user.new",
            "recipe": RECIPE,
            "checkpoints": {"main": "org/repo:Q4_0"},
        }
    )
    assert await lemonpod(world, "export", "new", "--output", str(tmp_path)) == EXIT_ENVIRONMENT
    assert f"{tmp_path}: cannot be written: Is a directory" in capsys.readouterr().err
    before = registered(world)
    await lemonpod(world, "delete", "new")
    assert await lemonpod(world, "import", str(file)) == EXIT_OK
    assert registered(world) == before
    for text in ("{", "{}"):
        file.write_text(text)
        assert await lemonpod(world, "import", str(file)) != EXIT_OK
        assert str(file) in capsys.readouterr().err


async def test_aliases(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert await lemonpod(world, "alias", "add", "team/fast", "m") == EXIT_OK
    capsys.readouterr()
    assert await lemonpod(world, "alias", "list") == EXIT_OK
    assert "team/fast" in capsys.readouterr().out
    assert await lemonpod(world, "alias", "remove", "team/fast") == EXIT_OK
    assert await lemonpod(world, "alias", "remove", "team/fast") == EXIT_FINDINGS
