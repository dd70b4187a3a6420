"""What goes with a model, and what stays."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest

from lemonpod.models.entry import CheckpointRef, ModelEntry, Origin
from lemonpod.models.remove import remove_files
from tests.unit.models.hub import make_repo


def model(name: str, origin: Origin = Origin.HUB, **checkpoints: str) -> ModelEntry:
    return ModelEntry(
        id=f"user.{name}",
        recipe="r",
        checkpoints=MappingProxyType(
            {role: CheckpointRef(text=text, origin=origin) for role, text in checkpoints.items()}
        ),
        labels=(),
        recipe_options={},
        saved_options={},
    )


def deleted(entry: ModelEntry, hub: Path, *others: ModelEntry) -> None:
    remove_files(entry, others, hub)


def names(hub: Path) -> list[str]:
    """The files that are still there with their content."""
    files = (path for path in hub.glob("*/snapshots/**/*") if path.is_file())
    return sorted(path.relative_to(hub).as_posix().partition("/snapshots/")[2] for path in files)


def test_a_model_that_is_alone_takes_its_repository_along(tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    make_repo(hub, "m-Q4.gguf")
    (hub / ".locks" / "models--org--repo").mkdir(parents=True)
    (hub / "models--org--repo" / "blobs" / "x.incomplete").write_bytes(b"GG")
    make_repo(hub, "other.gguf", repo="org/other")
    deleted(model("m", main="org/repo:Q4"), hub)
    assert {path.name for path in hub.iterdir()} == {".locks", "models--org--other"}
    assert not list((hub / ".locks").iterdir())


def test_what_others_mean_stays_and_so_does_what_nobody_means(tmp_path: Path) -> None:
    make_repo(tmp_path, "README.md", "m-Q4.gguf", "m-Q8.gguf", "mmproj.gguf")
    entry = model("a", main="org/repo:Q4", mmproj="org/repo:mmproj.gguf")
    deleted(entry, tmp_path, model("b", main="org/repo:Q8", mmproj="org/repo:mmproj.gguf"))
    assert names(tmp_path) == ["abc123/README.md", "abc123/m-Q8.gguf", "abc123/mmproj.gguf"]
    assert len(list(tmp_path.glob("*/blobs/*"))) == 3


def test_a_blob_that_another_name_leads_to_stays(tmp_path: Path) -> None:
    snapshot = make_repo(tmp_path, "m-Q4.gguf", "x.gguf")
    (snapshot / "x.gguf").unlink()
    (snapshot / "x.gguf").symlink_to((snapshot / "m-Q4.gguf").readlink())
    deleted(model("a", main="org/repo:Q4"), tmp_path, model("b", main="org/repo:x.gguf"))
    assert names(tmp_path) == ["abc123/x.gguf"]


def test_every_revision_of_a_model_goes(tmp_path: Path) -> None:
    make_repo(tmp_path, "m-Q4.gguf", "keep.gguf")
    make_repo(tmp_path, "m-Q4.gguf", snapshot="def456")
    deleted(model("a", main="org/repo:Q4"), tmp_path, model("b", main="org/repo:keep.gguf"))
    assert names(tmp_path) == ["abc123/keep.gguf"]
    assert len(list(tmp_path.glob("*/blobs/*"))) == 1
    assert not (tmp_path / "models--org--repo" / "snapshots" / "def456").exists()


def test_a_model_that_is_not_whole_goes_too(tmp_path: Path) -> None:
    make_repo(tmp_path, "m-00001-of-00002.gguf", "other.gguf")
    deleted(model("a", main="org/repo:m"), tmp_path)
    assert names(tmp_path) == ["abc123/other.gguf"]


def test_a_cache_without_links(tmp_path: Path) -> None:
    make_repo(tmp_path, "m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "q/other.gguf", links=False)
    deleted(model("a", main="org/repo:m"), tmp_path, model("b", main="org/repo:other.gguf"))
    assert names(tmp_path) == ["abc123/q/other.gguf"]


def test_two_models_of_the_same_files(tmp_path: Path) -> None:
    make_repo(tmp_path, "m-Q4.gguf")
    deleted(model("a", main="org/repo:Q4"), tmp_path, model("b", main="org/repo:m-Q4.gguf"))
    assert names(tmp_path) == ["abc123/m-Q4.gguf"]


def test_a_whole_repository_and_a_file_of_it(tmp_path: Path) -> None:
    make_repo(tmp_path, "config.json", "vae/ae.safetensors")
    deleted(model("a", main="org/repo"), tmp_path, model("b", main="org/repo:ae.safetensors"))
    assert names(tmp_path) == ["abc123/vae/ae.safetensors"]


def test_a_projector_out_of_the_repository_of_main(tmp_path: Path) -> None:
    make_repo(tmp_path, "m-Q4.gguf", "mmproj-F16.gguf", "other.gguf")
    deleted(model("a", main="org/repo:Q4", mmproj="org/gone:mmproj-F16.gguf"), tmp_path)
    assert names(tmp_path) == ["abc123/other.gguf"]


def test_files_of_the_users_own_stay(tmp_path: Path) -> None:
    file = tmp_path / "mine" / "m.gguf"
    file.parent.mkdir()
    file.write_bytes(b"GGUF")
    deleted(model("a", Origin.LOCAL_PATH, main=str(file)), tmp_path)
    assert file.exists()


@pytest.mark.parametrize("by", ["name", "blob", "folder", "another way"])
def test_what_another_model_has_by_its_path_stays(tmp_path: Path, by: str) -> None:
    hub, alias = tmp_path / "hub", tmp_path / "alias"
    snapshot = make_repo(hub, "m-Q4.gguf")
    alias.symlink_to(hub)
    name = snapshot / "m-Q4.gguf"
    path = {
        "name": name,
        "blob": name.resolve(),
        "folder": snapshot,
        "another way": alias / name.relative_to(hub),
    }[by]

    deleted(model("a", main="org/repo:Q4"), hub, model("b", Origin.LOCAL_PATH, main=str(path)))

    assert (path / name.name if path.is_dir() else path).read_bytes() == b"GGUF"


def test_all_shards_of_a_model_by_its_path_stay(tmp_path: Path) -> None:
    names_ = [f"m-Q4-0000{number}-of-00002.gguf" for number in (1, 2)]
    snapshot = make_repo(tmp_path, *names_)

    other = model("b", Origin.LOCAL_PATH, main=str(snapshot / names_[0]))
    deleted(model("a", main="org/repo:Q4"), tmp_path, other)

    assert len(names(tmp_path)) == 2


def test_an_upload_goes_unless_another_model_has_it(tmp_path: Path) -> None:
    file = tmp_path / "models--user--m" / "m.gguf"
    file.parent.mkdir()
    file.write_bytes(b"GGUF")
    entry = model("a", Origin.LOCAL_UPLOAD, main="models--user--m/m.gguf")
    deleted(entry, tmp_path, model("b", Origin.LOCAL_UPLOAD, main="models--user--m/m.gguf"))
    assert file.exists()
    deleted(entry, tmp_path)
    assert not file.parent.exists()


def test_what_never_came_is_nothing_to_remove(tmp_path: Path) -> None:
    deleted(model("a", main="org/repo:Q4", draft="../x"), tmp_path)


@pytest.mark.parametrize("text", ["../mine.gguf", "a/../../mine.gguf", "./../mine.gguf"])
def test_an_upload_that_leads_out_of_the_cache_stays(tmp_path: Path, text: str) -> None:  # M11
    hub, mine = tmp_path / "hub", tmp_path / "mine.gguf"
    (hub / "a").mkdir(parents=True)
    mine.write_bytes(b"GGUF")

    deleted(model("a", Origin.LOCAL_UPLOAD, main=text), hub)

    assert mine.exists()


def test_a_repository_that_is_a_link_gives_up_its_files(tmp_path: Path) -> None:
    hub, elsewhere = tmp_path / "hub", tmp_path / "elsewhere"
    make_repo(hub, "m-Q4.gguf")
    repo = hub / "models--org--repo"
    repo.rename(elsewhere)
    repo.symlink_to(elsewhere)

    deleted(model("a", main="org/repo:Q4"), hub)

    assert names(hub) == []
    assert not list(elsewhere.glob("blobs/*"))
