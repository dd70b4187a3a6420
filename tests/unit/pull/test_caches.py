"""Real pulls into caches of all kinds: read-only, where the environment puts them, shared with others."""

# ruff: noqa: ASYNC240 - nothing else waits for this loop

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType

import pytest
from huggingface_hub import hf_hub_download
from huggingface_hub.utils import WeakFileLock

from lemonpod.errors import ModelPullError, NotDeletableError
from lemonpod.models.entry import CheckpointRef, ModelEntry, Origin
from lemonpod.models.hub import hub_dir
from lemonpod.models.remove import remove_files
from lemonpod.models.repo_lock import fetching_into, removing_from
from lemonpod.pull.pulls import JobState, Order, Pulls
from tests.hub_site import HubSite, Repo
from tests.unit.pull.conftest import Puller
from tests.users import folders_of_mode, python_bound_by_modes
from tests.waiting import until

BIG = b"GGUF" + os.urandom(1_000_000)
MAIN = Order(checkpoints={"main": "org/repo:Q4_0"})
OTHER = Order(checkpoints={"main": "org/repo:Q8_0"})
BOTH = Order(checkpoints={"main": "org/repo:Q4_0", "draft": "org/repo:Q8_0"})
NAME = "user.m"
REFUSED = r"cannot be read or written: .*denied"
ENTRY = ModelEntry(
    id=NAME,
    recipe="r",
    checkpoints=MappingProxyType({"main": CheckpointRef(text="org/repo:Q4_0", origin=Origin.HUB)}),
    labels=(),
    recipe_options={},
    saved_options={},
)


@pytest.fixture(autouse=True)
def repo(site: HubSite) -> Repo:
    site.repos["org/repo"] = Repo({"m-Q4_0.gguf": BIG, "m-Q8_0.gguf": b"GGUF8"})
    return site.repos["org/repo"]


def files(hub: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in hub.glob("*/snapshots/*/*")}


def read_only(hub: Path) -> AbstractContextManager[None]:
    return folders_of_mode(0o555, hub)


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The process that fetches may do no more than modes allow it."""
    monkeypatch.setattr(sys, "executable", python_bound_by_modes(tmp_path))


@pytest.mark.usefixtures("bound")
async def test_a_complete_model_in_a_read_only_cache_is_fine(
    puller: Puller, hub: Path, site: HubSite
) -> None:  # M13
    pulls = puller()
    await pulls.pull(NAME, MAIN)
    site.asked.clear()
    with read_only(hub):
        await pulls.pull(NAME, MAIN)
    assert not site.contents()


@pytest.mark.usefixtures("bound")
async def test_what_is_missing_in_a_read_only_cache_cannot_be_fetched(
    puller: Puller, hub: Path, site: HubSite, repo: Repo
) -> None:  # M13
    pulls = puller()
    hub.mkdir()
    planned: list[bool] = []

    async def note() -> None:
        planned.append(True)

    with read_only(hub), pytest.raises(ModelPullError, match=REFUSED) as caught:
        await pulls.pull(NAME, MAIN, note)
    assert caught.value.hint is not None
    assert "HF_HUB_CACHE" in caught.value.hint
    await pulls.pull(NAME, MAIN)
    site.asked.clear()
    with read_only(hub), pytest.raises(ModelPullError, match=REFUSED):
        await pulls.pull("user.b", OTHER)
    repo.files["m-Q4_0.gguf"], repo.commit = BIG[:-1], "b" * 40
    with read_only(hub), pytest.raises(ModelPullError, match=REFUSED):
        await pulls.pull(NAME, MAIN)  # a newer revision; the older one stays
    assert files(hub) == {"m-Q4_0.gguf": BIG}
    assert not site.contents()
    assert not planned  # nothing is registered that could never come


@pytest.mark.usefixtures("bound")
async def test_a_cache_that_may_not_be_looked_into_says_so(puller: Puller, hub: Path) -> None:
    pulls = puller()
    await pulls.pull(NAME, MAIN)
    with folders_of_mode(0, next(hub.glob("models--*"))), pytest.raises(ModelPullError, match=REFUSED):
        await pulls.pull(NAME, MAIN)


async def test_a_worker_that_cannot_start_is_told(
    puller: Puller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    pulls = puller()
    with pytest.raises(ModelPullError, match="cannot be started: No such file"):
        await pulls.pull(NAME, MAIN)
    (job,) = pulls.jobs()
    assert (job.state, job.running) == (JobState.ERROR, False)


HF_READS = "from huggingface_hub import hf_hub_download as get; print(get(*{!r}, local_files_only=True))"


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({}, "home/.cache/huggingface/hub"),
        ({"HF_HUB_CACHE": "{}/a"}, "a"),
        ({"HF_HOME": "{}/b"}, "b/hub"),
        ({"HF_HUB_CACHE": "{}/a", "HF_HOME": "{}/b"}, "a"),
        ({"HF_HUB_CACHE": "~/c"}, "home/c"),
        ({"HF_HOME": "$BASE/d", "BASE": "{}"}, "d/hub"),
        ({"HUGGINGFACE_HUB_CACHE": "{}/e", "HF_HOME": "{}/b"}, "e"),
        ({"XDG_CACHE_HOME": "{}/f"}, "f/huggingface/hub"),
    ],
)
async def test_a_pull_goes_where_huggingface_hub_looks(
    site: HubSite, tmp_path: Path, environ: Mapping[str, str], folder: str
) -> None:  # M09
    own = {name: value.format(tmp_path) for name, value in environ.items()}
    own |= {"HF_ENDPOINT": site.url, "HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    hub = hub_dir(own)
    await Pulls(hub, own, retry_after=0.01).pull(NAME, MAIN)
    assert hub == tmp_path / folder
    assert files(hub) == {"m-Q4_0.gguf": BIG}
    reading = HF_READS.format(("org/repo", "m-Q4_0.gguf"))
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", reading], env=own, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).is_relative_to(hub)


async def test_the_account_that_was_logged_in_is_used(puller: Puller, site: HubSite, tmp_path: Path) -> None:
    """`hf auth login` writes it into HF_HOME."""
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text("hf_kept\n")
    await puller(HF_HOME=str(tmp_path / "hf")).pull(NAME, MAIN)
    assert {asked.authorization for asked in site.asked if "/api/" in asked.path} == {"Bearer hf_kept"}


async def test_what_another_process_fetches_is_not_removed(puller: Puller, site: HubSite, hub: Path) -> None:
    await puller().pull(NAME, MAIN)
    site.repos["org/repo"].files["m-Q8_0.gguf"] = BIG[::-1]
    site.gate = threading.Event()
    other = puller()
    asking = asyncio.create_task(other.pull("user.b", OTHER))
    await until(lambda: (job := other.find("user.b")) and job.progress.bytes_downloaded)
    with pytest.raises(NotDeletableError, match="are being fetched at this moment"):
        remove_files(ENTRY, (), hub)
    assert files(hub) == {"m-Q4_0.gguf": BIG}
    site.gate.set()
    await asking
    remove_files(ENTRY, (), hub)
    assert files(hub) == {"m-Q8_0.gguf": BIG[::-1]}


async def test_nor_is_what_huggingface_hub_fetches_by_itself(puller: Puller, hub: Path) -> None:
    await puller().pull(NAME, MAIN)
    (lock,) = hub.glob(".locks/models--org--repo/*.lock")
    with WeakFileLock(lock), pytest.raises(NotDeletableError):
        remove_files(ENTRY, (), hub)
    remove_files(ENTRY, (), hub)
    assert not [path for path in hub.rglob("*") if path.is_file()]


async def test_a_pull_waits_for_a_removal_and_is_whole(puller: Puller, site: HubSite, hub: Path) -> None:
    await puller().pull(NAME, MAIN)
    site.asked.clear()
    pulls = puller()
    with removing_from(hub / "models--org--repo"):
        asking = asyncio.create_task(pulls.pull(NAME, MAIN))
        await until(lambda: bool(site.asked))
        remove_files_now(hub)
        assert not asking.done()
    await asking
    assert files(hub) == {"m-Q4_0.gguf": BIG}
    with fetching_into(hub / "models--org--repo"), pytest.raises(NotDeletableError):
        remove_files(ENTRY, (), hub)


def remove_files_now(hub: Path) -> None:
    for path in sorted((hub / "models--org--repo").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    (hub / "models--org--repo").rmdir()


async def test_a_pull_that_does_not_fit_leaves_no_folder(puller: Puller, hub: Path, repo: Repo) -> None:
    repo.sizes["m-Q4_0.gguf"] = 10**18
    with pytest.raises(ModelPullError):
        await puller().pull(NAME, MAIN)
    assert not list(hub.glob("models--*"))


async def test_files_of_one_content_in_a_cache_without_links(
    puller: Puller, site: HubSite, hub: Path, repo: Repo
) -> None:
    content = b"GGUF" + bytes(100_000)
    names = {"a/x.bin": content, "b/x.bin": content, "c/x.bin": content, "a/empty": b"", "b/empty": b""}
    repo.files.clear()
    repo.files.update(names)

    await puller(HF_HUB_DISABLE_SYMLINKS="1").pull(NAME, Order(checkpoints={"main": "org/repo"}))

    [snapshot] = hub.glob("*/snapshots/*")
    there = {str(path.relative_to(snapshot)): path.read_bytes() for path in snapshot.glob("*/*")}
    assert there == names
    assert len([asked for asked in site.contents() if asked.path.endswith("x.bin")]) == 1
    assert not list(hub.glob("*/blobs/*"))


async def test_a_cache_without_links(puller: Puller, site: HubSite, hub: Path) -> None:
    pulls = puller(HF_HUB_DISABLE_SYMLINKS="1")
    await pulls.pull(NAME, BOTH)
    assert files(hub) == {"m-Q4_0.gguf": BIG, "m-Q8_0.gguf": b"GGUF8"}
    assert not list(hub.glob("*/blobs/*"))  # nothing is there twice
    assert not [path for path in hub.rglob("*") if path.is_symlink()]
    path = hf_hub_download("org/repo", "m-Q4_0.gguf", cache_dir=hub, local_files_only=True)
    assert Path(path).read_bytes() == BIG
    site.asked.clear()
    await pulls.pull(NAME, BOTH)
    assert not site.contents()
