from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.vocabulary import BUILTIN_RECIPES, Mode
from lemonpod.discovery.paths import DiscoveryPaths
from lemonpod.errors import CheckpointNotFoundError, ModelNotFoundError, RecipeNotFoundError
from lemonpod.inventory.inventory import Inventory
from lemonpod.launch.request import LaunchSettings
from lemonpod.models.registry import ModelRegistry, Models
from tests.factories import make_document, make_facts
from tests.unit.models.hub import make_repo

BLOCK = {"linux": {"cpu": {"command": "/opt/engine", "args": ["-m", "{checkpoint:main}", "-p", "{port}"]}}}


class CountingRegistry(ModelRegistry):
    """Counts how often it was asked."""

    loads = 0

    def load(self) -> Models:
        self.loads += 1
        return super().load()


class Place:
    """The folders of a server that is not running, and its inventory."""

    def __init__(self, folder: Path) -> None:
        self.manifests = folder / "backends"
        self.config = folder / "config"
        self.hub = folder / "hub"
        self.shipped = folder / "shipped"
        for path in (self.manifests, self.config, self.hub, self.shipped):
            path.mkdir(mode=0o755)
        self.registry = CountingRegistry(self.config)
        self.inventory = Inventory(
            paths=DiscoveryPaths(
                user_config=(self.manifests,), user_cache=(), system=(), shipped=(self.shipped,)
            ),
            registry=self.registry,
            hub=self.hub,
            facts=make_facts(),
            settings=LaunchSettings(hf_cache=self.hub, cache_dir=folder / "cache"),
            env={},
            builtin=BUILTIN_RECIPES,
            euid=os.geteuid(),
        )

    def manifest(self, recipe: str = "test-engine", **fields: Any) -> Path:
        document = make_document(**({"recipe": recipe, "platforms": BLOCK} | fields))
        return self.write(self.manifests / f"{recipe}.json", json.dumps(document))

    def models(self, **models: dict[str, Any]) -> Path:
        entries = {name: {"recipe": "test-engine"} | fields for name, fields in models.items()}
        return self.write(self.config / "user_models.json", json.dumps(entries))

    def write(self, path: Path, text: str) -> Path:
        path.write_text(text)
        path.chmod(0o644)
        return path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


Lines = Callable[[], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    caplog.set_level(logging.INFO, "lemonpod")

    def taken() -> list[str]:
        texts = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return texts

    return taken


async def test_models_meet_their_recipes(place: Place) -> None:
    place.manifest()
    place.models(a={}, b={"labels": ["chat"]})
    await place.inventory.ready()
    assert [servable.entry.id for servable in place.inventory.servables()] == ["user.a", "user.b"]
    servable = place.inventory.find("a")
    assert servable.manifest is place.inventory.catalog.descriptors["test-engine"].manifest
    assert (servable.mode, servable.recipe_problem) == (Mode.CHAT, None)
    assert place.inventory.models.find("b") is place.inventory.find("user.b").entry


async def test_a_manifest_in_the_place_of_a_shipped_one_is_no_warning(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lemonpod")
    own = place.manifest()
    shipped = place.write(place.shipped / "x.json", own.read_text())
    await place.inventory.ready()
    told = [record.levelname for record in caplog.records if str(shipped) in record.getMessage()]
    assert told == ["INFO"]


def test_an_inventory_that_has_not_looked_is_empty(place: Place) -> None:
    place.manifest()
    place.models(a={})
    assert place.inventory.servables() == ()
    with pytest.raises(ModelNotFoundError):
        place.inventory.find("a")


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("nowhere", "no external manifest registered for recipe 'nowhere'"),
        ("flm", "recipe 'flm' is built into Lemonade"),
        ("broken", "the manifest of recipe 'broken' was rejected: "),
    ],
)
async def test_a_model_without_a_recipe_says_why(place: Place, recipe: str, words: str) -> None:
    file = place.manifest("broken", capabilities=["mind_reading"])
    place.models(a={"recipe": recipe})
    place.inventory.refresh()
    servable = place.inventory.find("a")
    assert servable.manifest is None
    assert words in (servable.recipe_problem or "")
    if recipe == "broken":
        assert f"{file}: " in (servable.recipe_problem or "")
        assert "unknown capability" in (servable.recipe_problem or "")
    with pytest.raises(RecipeNotFoundError, match=words):
        await place.inventory.plan("user.a", {}, 8001)


def test_a_model_of_another_mode_says_why(place: Place) -> None:
    place.manifest()
    place.models(a={"labels": ["tts"]})
    place.inventory.refresh()
    servable = place.inventory.find("a")
    assert servable.mode is None
    assert "labelled for tts" in (servable.recipe_problem or "")


def test_an_unknown_model_is_told_in_lemonades_words(place: Place) -> None:
    place.models(**{f"m{number:02}": {} for number in range(12)})
    place.inventory.refresh()
    with pytest.raises(ModelNotFoundError) as caught:
        place.inventory.find("x")
    assert caught.value.model == "x"
    assert caught.value.message == (
        "Model 'x' was not found. Available models include: user.m00, user.m01, user.m02, user.m03, "
        "user.m04, user.m05, user.m06, user.m07, user.m08, user.m09 and 2 more. Use 'lemonpod list' or "
        "GET /api/v1/models?show_all=true to see all available models."
    )


def test_a_refused_entry_is_not_found_with_its_reason(place: Place) -> None:
    place.models(a={"recipe": 1})
    place.inventory.refresh()
    with pytest.raises(ModelNotFoundError) as caught:
        place.inventory.find("a")
    assert "user_models.json: a.recipe: must be a string" in (caught.value.hint or "")


async def test_a_model_of_a_moment_ago_is_found(place: Place) -> None:
    place.inventory.refresh()
    place.manifest()
    place.models(a={})
    with pytest.raises(ModelNotFoundError):
        place.inventory.find("a")
    assert (await place.inventory.lookup("a")).entry.id == "user.a"
    with pytest.raises(ModelNotFoundError):
        await place.inventory.lookup("b")


async def test_many_lookups_at_once_share_few_looks(place: Place) -> None:
    results = await asyncio.gather(
        *(place.inventory.lookup(f"x{number}") for number in range(50)), return_exceptions=True
    )
    assert all(isinstance(result, ModelNotFoundError) for result in results)
    assert place.registry.loads <= 2


# Availability


async def test_files_that_are_here_and_files_that_are_not(place: Place) -> None:
    snapshot = make_repo(place.hub, "m.gguf")
    place.manifest()
    place.models(
        here={"checkpoint": "org/repo:m.gguf"},
        away={"checkpoints": {"main": "org/repo:no.gguf", "vae": "org/no:v"}},
        none={},
        orphan={"recipe": "nowhere", "checkpoint": "org/repo:x.gguf"},
    )
    place.inventory.refresh()
    here = await place.inventory.availability(place.inventory.find("here"))
    assert (here.files["main"].path, here.missing) == (snapshot / "m.gguf", ())
    away = await place.inventory.availability(place.inventory.find("away"))
    assert len(away.missing) == 1  # no template of the recipe asks for a vae
    assert away.missing[0].startswith("main: ")
    assert (await place.inventory.availability(place.inventory.find("none"))).missing == ()
    assert (await place.inventory.availability(place.inventory.find("orphan"))).missing != ()


async def test_a_self_managed_recipe_misses_nothing(place: Place) -> None:
    place.manifest(model_management="self_managed")
    place.models(a={"checkpoint": "llama3:8b"})
    place.inventory.refresh()
    found = await place.inventory.availability(place.inventory.find("a"))
    assert (found.files["main"].path, found.missing) == (None, ())
    assert (await place.inventory.plan("user.a", {}, 1)).spec.argv[2] == "llama3:8b"


# Plans


async def test_a_plan_is_of_what_the_files_say_now(place: Place) -> None:
    snapshot = make_repo(place.hub, "m.gguf")
    place.manifest()
    place.models(a={"checkpoint": "org/repo:m.gguf"})
    place.inventory.refresh()
    place.manifest(capabilities=["embeddings"])
    place.write(place.config / "recipe_options.json", '{"user.a": {"ctx_size": 77}}')
    plan = await place.inventory.plan("user.a", {"threads": 3}, 8005)
    assert plan.spec.argv == ("/opt/engine", "-m", str(snapshot / "m.gguf"), "-p", "8005")
    assert plan.mode is Mode.EMBEDDINGS
    assert plan.options == {"ctx_size": 77, "threads": 3}


async def test_a_plan_that_cannot_be(place: Place) -> None:
    place.manifest()
    place.models(a={"checkpoint": "org/repo:m.gguf"})
    with pytest.raises(CheckpointNotFoundError, match="is not in the Hugging Face cache"):
        await place.inventory.plan("user.a", {}, 8001)
    with pytest.raises(ModelNotFoundError):
        await place.inventory.plan("user.b", {}, 8001)


# Refreshing


def test_changes_are_told_once(place: Place, lines: Lines) -> None:
    place.manifest("one")
    place.models(a={}, b={"recipe": 1})
    assert place.inventory.refresh()
    assert lines() == [
        "1 recipes and 1 models found",
        f"{place.config}/user_models.json: b.recipe: must be a string",
    ]
    assert not place.inventory.refresh()
    assert lines() == []
    two = place.manifest("two")
    place.manifest("one", display_name="New")
    place.models(a={"labels": ["hot"]}, c={})
    changed = place.inventory.refresh()
    assert changed.recipes.added == ("two",)
    assert changed.models.added == ("user.c",)
    assert lines() == [
        f"recipe 'two' added by {two}",
        "recipe 'one' changed; the next load takes it, running engines stay",
        "model 'user.c' added",
        "model 'user.a' changed",
    ]
    two.unlink()
    place.models(a={"labels": ["hot"]})
    place.inventory.refresh()
    assert lines() == ["recipe 'two' removed; running engines stay", "model 'user.c' removed"]


def test_a_half_written_manifest_keeps_the_last_good_version(place: Place, lines: Lines) -> None:  # F07
    file = place.manifest()
    place.models(a={})
    place.inventory.refresh()
    before = place.inventory.find("a").manifest
    whole = file.read_text()
    file.write_text(whole[:20])
    lines()
    place.inventory.refresh()
    assert place.inventory.find("a").manifest is before
    (line,) = lines()
    assert line.startswith(f"refused {file}: ")
    assert line.endswith("; its last good version stays in use")
    assert place.inventory.catalog.rejected[0].kept
    file.write_text(whole)
    place.inventory.refresh()
    assert place.inventory.find("a").manifest is before
    assert place.inventory.catalog.rejected == ()
    assert lines() == []


def test_only_what_changed_changes(place: Place) -> None:
    place.manifest("one")
    place.manifest("two")
    place.models(a={"recipe": "one"}, b={"recipe": "two"})
    place.inventory.refresh()
    before = place.inventory.find("a")
    place.manifest("two", display_name="New")
    place.inventory.refresh()
    assert place.inventory.find("a").manifest is before.manifest
    assert place.inventory.find("a").entry is before.entry


def test_a_broken_models_file_keeps_the_models(place: Place, lines: Lines) -> None:
    place.manifest()
    file = place.models(a={})
    place.inventory.refresh()
    lines()
    file.write_text('{"a": ')
    place.inventory.refresh()
    assert place.inventory.find("a").recipe_problem is None
    (line,) = lines()
    assert "not valid JSON" in line
    assert "the last good version stays in use" in line


def test_refreshes_at_once_are_one_at_a_time(place: Place) -> None:
    place.manifest()
    place.models(a={})
    results: list[bool] = []
    start = threading.Barrier(8)

    def refresh() -> None:
        start.wait()
        results.append(bool(place.inventory.refresh()))

    threads = [threading.Thread(target=refresh) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False] * 7 + [True]
