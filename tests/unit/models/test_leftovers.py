"""What in the cache no model can use, and that nothing else goes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from lemonpod.models.leftovers import SUPERSEDED, UNFINISHED, UNREFERENCED, InUse, find_leftovers
from lemonpod.models.reach import needed_for
from lemonpod.models.repo_lock import fetching_into

OLD, NEW, NAMED = "a" * 40, "b" * 40, "c" * 40
FOLDER = "models--org--repo"


class Cache:
    def __init__(self, hub: Path) -> None:
        self.hub = hub
        self.repo = hub / FOLDER
        (self.repo / "blobs").mkdir(parents=True)

    def blob(self, name: str, size: int = 10) -> Path:
        path = self.repo / "blobs" / name
        path.write_bytes(b"x" * size)
        return path

    def snapshot(self, commit: str, *blobs: str) -> Path:
        folder = self.repo / "snapshots" / commit
        folder.mkdir(parents=True)
        for blob in blobs:
            (folder / f"{blob}.gguf").symlink_to(os.path.relpath(self.repo / "blobs" / blob, folder))
        return folder

    def ref(self, name: str, commit: str) -> None:
        path = self.repo / "refs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(commit)

    def found(
        self,
        used: Mapping[str, Collection[str]] | None = None,
        kept: Collection[str] = (),
        *,
        files: Collection[Path] = (),
        remove: bool = False,
    ) -> dict[str, tuple[str, int]]:
        in_use = InUse(commits=used or {}, places=needed_for(files))
        found = find_leftovers(self.hub, in_use, kept, remove=remove)
        return {str(item.path.relative_to(self.repo)): (item.kind, item.size) for item in found}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """A repository with an old snapshot, a new one, and one that a tag names."""
    cache = Cache(tmp_path)
    for name in ("both", "old", "new", "tagged"):
        cache.blob(name)
    cache.snapshot(OLD, "both", "old")
    cache.snapshot(NEW, "both", "new")
    cache.snapshot(NAMED, "tagged")
    cache.ref("main", NEW)
    cache.ref("v1", NAMED)
    return cache


def everything(cache: Cache) -> set[str]:
    return {str(path.relative_to(cache.hub)) for path in cache.hub.rglob("*")}


def test_half_contents_and_those_without_a_name_are_leftovers(cache: Cache) -> None:
    cache.blob("half.incomplete", 3)
    cache.blob("lost", 5)

    assert cache.found() == {
        "blobs/half.incomplete": (UNFINISHED, 3),
        "blobs/lost": (UNREFERENCED, 5),
    }


def test_a_look_changes_nothing(cache: Cache) -> None:
    cache.blob("lost")
    before = everything(cache)

    cache.found({FOLDER: {NEW}})

    assert everything(cache) == before


def test_an_old_snapshot_goes_with_what_is_its_alone(cache: Cache) -> None:
    found = cache.found({FOLDER: {NEW}}, remove=True)

    assert found == {f"snapshots/{OLD}": (SUPERSEDED, 10)}
    assert {path.name for path in (cache.repo / "blobs").iterdir()} == {"both", "new", "tagged"}
    assert {path.name for path in (cache.repo / "snapshots").iterdir()} == {NEW, NAMED}
    assert (cache.repo / "snapshots" / NEW / "both.gguf").read_bytes()
    assert cache.found({FOLDER: {NEW}}) == {}


def test_what_a_model_is_loaded_from_stays(cache: Cache) -> None:
    assert cache.found({FOLDER: {NEW, OLD}}, remove=True) == {}


def test_snapshots_of_nobodys_repository_stay(cache: Cache) -> None:
    assert cache.found({"models--org--other": {NEW}}, remove=True) == {}


def test_two_old_snapshots_share_what_they_have(cache: Cache) -> None:
    cache.snapshot("d" * 40, "old")

    found = cache.found({FOLDER: {NEW}}, remove=True)

    assert sum(size for _, size in found.values()) == 10
    assert not (cache.repo / "blobs" / "old").exists()


def test_a_cache_without_links(cache: Cache) -> None:
    (cache.snapshot("d" * 40) / "model.gguf").write_bytes(b"x" * 7)

    assert cache.found({FOLDER: {NEW, OLD}}, remove=True) == {f"snapshots/{'d' * 40}": (SUPERSEDED, 7)}


def test_a_link_out_of_the_repository_takes_nothing_along(cache: Cache, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("x")
    (cache.repo / "snapshots" / OLD / "away").symlink_to(precious)

    cache.found({FOLDER: {NEW}}, remove=True)

    assert precious.read_text() == "x"


def test_while_somebody_fetches_it_is_passed_over(cache: Cache) -> None:
    cache.blob("half.incomplete")

    with fetching_into(cache.repo):
        assert cache.found(remove=True) == {}

    assert cache.found(remove=True)


def test_a_download_that_pauses_is_kept(cache: Cache) -> None:
    cache.blob("half.incomplete")

    assert cache.found(kept={FOLDER}, remove=True) == {}


def test_other_folders_and_links_to_repositories_are_left_alone(cache: Cache, tmp_path: Path) -> None:
    data = tmp_path / "datasets--org--repo" / "blobs"
    data.mkdir(parents=True)
    (data / "half.incomplete").write_text("x")
    (tmp_path / "models--org--linked").symlink_to(data.parent)

    assert cache.found(remove=True) == {}


def test_a_link_by_another_way_counts(cache: Cache, tmp_path: Path) -> None:
    """As in a cache that was moved, and has a link where it was."""
    blob, alias = cache.blob("absolute"), tmp_path / "alias"
    alias.symlink_to(tmp_path)
    name = cache.repo / "snapshots" / NEW / "absolute.gguf"
    name.symlink_to(alias / blob.relative_to(tmp_path))

    assert cache.found(remove=True) == {}
    assert name.is_file()


@pytest.mark.parametrize("commit", [NEW, OLD])
def test_what_a_name_of_another_repository_leads_to_stays(cache: Cache, commit: str) -> None:
    other = cache.hub / "models--org--other" / "snapshots" / NEW
    other.mkdir(parents=True)
    name = other / "borrowed.gguf"
    name.symlink_to(cache.repo / "snapshots" / commit / "both.gguf")

    cache.found({FOLDER: {NEW}}, remove=True)

    assert name.is_file()


def test_a_snapshot_that_another_one_leads_through_stays(cache: Cache) -> None:
    (cache.repo / "snapshots" / NEW / "again.gguf").symlink_to(Path("..", OLD, "old.gguf"))

    assert cache.found({FOLDER: {NEW}}, remove=True) == {}


def test_a_snapshot_that_is_a_link_keeps_its_target(cache: Cache) -> None:
    (cache.repo / "snapshots" / ("d" * 40)).symlink_to(OLD)

    assert cache.found({FOLDER: {NEW}}, remove=True) == {}


@pytest.mark.parametrize("name", [f"snapshots/{OLD}/old.gguf", f"snapshots/{OLD}", "blobs/lost"])
def test_what_a_model_has_by_its_path_stays(cache: Cache, name: str) -> None:
    cache.blob("lost")

    cache.found({FOLDER: {NEW}}, files=[cache.repo / name], remove=True)

    path = cache.repo / name
    assert path.is_file() or (path / "old.gguf").is_file()


def test_blobs_in_another_folder_are_left_alone(cache: Cache, tmp_path: Path) -> None:
    cache.blob("half.incomplete")
    (cache.repo / "blobs").rename(tmp_path / "elsewhere")
    (cache.repo / "blobs").symlink_to(tmp_path / "elsewhere")

    assert cache.found({FOLDER: {NEW}}, remove=True) == {}


def test_what_is_no_file_is_left_alone(cache: Cache) -> None:
    (cache.repo / "blobs" / "folder").mkdir()
    (cache.repo / "blobs" / "folder.incomplete").mkdir()
    (cache.repo / "blobs" / "link").symlink_to("both")

    assert cache.found(remove=True) == {}


def test_no_cache_at_all(tmp_path: Path) -> None:
    assert find_leftovers(tmp_path / "none", InUse(commits={}), (), remove=True) == []
