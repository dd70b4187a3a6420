"""Pulls from a stand-in of the hub, over real sockets, by the real process for it."""

# ruff: noqa: ASYNC240 - nothing else waits for this loop

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download, scan_cache_dir, try_to_load_from_cache

from lemonpod.errors import (
    HubAccessError,
    HubBusyError,
    HubNotFoundError,
    HubOfflineError,
    InvalidModelError,
    LemonpodError,
    ModelPullError,
    NoSpaceError,
)
from lemonpod.models.checkpoint import locate_all
from lemonpod.models.entry import CheckpointRef, Origin
from lemonpod.pull.pulls import JobState, Order
from tests.hub_site import HubSite, Repo
from tests.unit.pull.conftest import Puller
from tests.waiting import until

BIG = b"GGUF" + os.urandom(1_500_000)
SMALL = b"GGUF small"
MODEL = Order(checkpoints={"main": "org/repo:Q4_0", "mmproj": "org/repo:mmproj.gguf"})
MAIN = Order(checkpoints={"main": "org/repo:Q4_0"})
NAME = "user.m"


@pytest.fixture(autouse=True)
def repo(site: HubSite) -> Repo:
    site.repos["org/repo"] = Repo({"m-Q4_0.gguf": BIG, "mmproj.gguf": SMALL, "README.md": b"hello"})
    return site.repos["org/repo"]


def found(hub: Path, order: Order) -> dict[str, bytes | None]:
    """The content of each checkpoint, as a load would find it."""
    refs = {name: CheckpointRef(text=text, origin=Origin.HUB) for name, text in order.checkpoints.items()}
    files = locate_all(refs, hub)
    return {name: file.path.read_bytes() if file.path else None for name, file in files.items()}


def blobs(hub: Path) -> set[str]:
    return {path.name for path in hub.glob("*/blobs/*")}


async def test_a_pull_leaves_a_cache_that_huggingface_hub_reads(
    puller: Puller, site: HubSite, hub: Path, repo: Repo
) -> None:
    pulls = puller()
    job = await pulls.pull(NAME, MODEL)
    assert (job.state, job.progress.total_files) == (JobState.COMPLETED, 2)
    assert job.progress.done_bytes == job.progress.total_bytes == len(BIG) + len(SMALL)
    assert found(hub, MODEL) == {"main": BIG, "mmproj": SMALL}

    path = hf_hub_download("org/repo", "m-Q4_0.gguf", cache_dir=hub, local_files_only=True)
    assert Path(path).read_bytes() == BIG
    assert try_to_load_from_cache("org/repo", "README.md", cache_dir=hub) is None
    report = scan_cache_dir(hub)
    assert not report.warnings
    (scanned,) = report.repos
    assert (scanned.repo_id, scanned.nb_files) == ("org/repo", 2)
    assert {tuple(revision.refs) for revision in scanned.revisions} == {("main",)}
    assert {path.stat().st_mode & 0o777 for path in hub.glob("*/blobs/*")} == {0o644}


@pytest.mark.parametrize("module", ["httpx2", "huggingface_hub"])
async def test_without_the_extra_the_cure_is_told(
    puller: Puller, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{module}'\")")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModelPullError, match="not installed") as refused:
        await puller().pull(NAME, MAIN)
    assert "lemonpod[pull]" in str(refused.value.hint)


async def test_a_whole_repository(puller: Puller, site: HubSite, hub: Path) -> None:
    site.repos["org/whole"] = Repo({"config.json": b"{}", "a/model.safetensors": BIG, "empty": b""})
    order = Order(checkpoints={"main": "org/whole"})
    await puller().pull(NAME, order)
    folder = next(hub.glob("models--org--whole/snapshots/*"))
    assert {
        str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    } == site.repos["org/whole"].files


@pytest.mark.parametrize("ranges", [True, False])
async def test_a_connection_that_is_cut_is_taken_up_again(
    puller: Puller, site: HubSite, hub: Path, ranges: bool
) -> None:
    site.ranges = ranges
    site.cut_after = [len(BIG) * 4 // 10]
    await puller().pull(NAME, MAIN)
    assert found(hub, MAIN) == {"main": BIG}
    first, second = site.contents()
    assert first.range is None
    assert second.range is not None
    assert second.range != "bytes=0-"


async def test_a_hub_that_is_away_for_long_is_given_up_and_its_bytes_kept(
    puller: Puller, site: HubSite, hub: Path
) -> None:
    site.cut_after = [len(BIG) * 4 // 10, *[0] * 20]
    with pytest.raises(ModelPullError, match="cannot be reached") as caught:
        await puller().pull(NAME, MAIN)
    assert caught.value.hint == "what has come is kept; pull again"
    assert found(hub, MAIN) == {"main": None}
    site.cut_after.clear()
    site.asked.clear()
    await puller().pull(NAME, MAIN)
    assert found(hub, MAIN) == {"main": BIG}
    (rest,) = site.contents()
    assert rest.range is not None
    assert int(rest.range.removeprefix("bytes=").rstrip("-")) >= 256 << 10
    assert not [name for name in blobs(hub) if name.endswith(".incomplete")]


async def test_who_leaves_stops_the_pull_and_the_next_goes_on(
    puller: Puller, site: HubSite, hub: Path
) -> None:
    site.gate = threading.Event()
    pulls = puller()
    waiting = [asyncio.create_task(pulls.pull(NAME, MAIN)) for _ in range(2)]
    await until(lambda: (job := pulls.find(NAME)) and job.progress.bytes_downloaded)
    waiting[0].cancel()
    await asyncio.wait({waiting[0]})
    (job,) = pulls.jobs()
    assert job.running  # the other still waits
    waiting[1].cancel()
    await asyncio.wait({waiting[1]})
    assert (job.running, job.state) == (False, JobState.CANCELLED)
    site.gate.set()
    assert [name for name in blobs(hub) if name.endswith(".incomplete")]
    site.asked.clear()
    await pulls.pull(NAME, MAIN)
    (rest,) = site.contents()
    assert rest.range is not None
    assert found(hub, MAIN) == {"main": BIG}


async def test_a_pull_that_is_paused_while_somebody_waits_is_paused(
    puller: Puller, site: HubSite, hub: Path
) -> None:
    site.gate = threading.Event()
    pulls = puller()
    waiting = asyncio.create_task(pulls.pull(NAME, MAIN))
    await until(lambda: any(hub.glob("*/blobs/*.incomplete")))
    job = pulls.find(NAME)
    assert job is not None

    await pulls.stop(job, JobState.PAUSED)

    with pytest.raises(ModelPullError, match="was ended"):
        await waiting
    assert job.state is JobState.PAUSED


async def test_who_comes_while_a_pull_ends_begins_another(puller: Puller, site: HubSite, hub: Path) -> None:
    site.gate = threading.Event()
    pulls = puller()
    leaving = asyncio.create_task(pulls.pull(NAME, MAIN))
    await until(lambda: (job := pulls.find(NAME)) and job.progress.bytes_downloaded)
    (old,) = pulls.jobs()
    leaving.cancel()
    for _ in range(3):  # it hears of it, and has not ended yet
        await asyncio.sleep(0)
    assert old.running
    assert old.state is JobState.CANCELLED
    site.gate.set()

    job = await pulls.pull(NAME, MAIN)

    assert (job.state, old.state) == (JobState.COMPLETED, JobState.CANCELLED)
    assert pulls.jobs() == (job,)
    assert found(hub, MAIN) == {"main": BIG}
    await asyncio.wait({leaving})


async def test_two_pulls_of_one_file_download_it_once(puller: Puller, site: HubSite, hub: Path) -> None:
    """By two models, so by two processes; and by two servers."""
    site.gate = threading.Event()
    one, other = puller(), puller()
    asking = [
        asyncio.create_task(one.pull("user.a", MAIN)),
        asyncio.create_task(one.pull("user.b", MAIN)),
        asyncio.create_task(other.pull("user.c", MAIN)),
    ]
    listed = 3
    await until(lambda: sum(asked.path.startswith("/api/models/") for asked in site.asked) == listed)
    site.gate.set()
    await asyncio.gather(*asking)
    assert len(site.contents()) == 1
    assert found(hub, MAIN) == {"main": BIG}


@pytest.mark.parametrize(
    "other", [BIG[:-1] + b"x", BIG[:1000], BIG + b"more"], ids=["changed", "cut", "grown"]
)
async def test_a_file_that_is_not_what_was_promised_is_no_model(
    puller: Puller, site: HubSite, hub: Path, other: bytes
) -> None:
    site.swapped["m-Q4_0.gguf"] = other
    with pytest.raises(ModelPullError, match=r"is not what the hub has|cannot be reached"):
        await puller().pull(NAME, MAIN)
    assert found(hub, MAIN) == {"main": None}
    site.swapped.clear()
    await puller().pull(NAME, MAIN)
    assert found(hub, MAIN) == {"main": BIG}


async def test_a_file_that_changes_between_two_pulls_begins_anew(
    puller: Puller, site: HubSite, hub: Path, repo: Repo
) -> None:
    site.cut_after = [len(BIG) * 4 // 10, *[0] * 20]
    with pytest.raises(ModelPullError):
        await puller().pull(NAME, MAIN)
    new = b"GGUF" + os.urandom(len(BIG) - 4)
    repo.files["m-Q4_0.gguf"], repo.commit = new, "b" * 40
    site.cut_after.clear()
    site.asked.clear()
    await puller().pull(NAME, MAIN)
    assert found(hub, MAIN) == {"main": new}
    assert [asked.range for asked in site.contents()] == [None]


async def test_what_was_kept_and_is_spoiled_begins_anew(puller: Puller, site: HubSite, hub: Path) -> None:
    partial = hub / "models--org--repo" / "blobs" / f"{hashlib.sha256(BIG).hexdigest()}.incomplete"
    partial.parent.mkdir(parents=True)
    for content in (b"x" * 1000, b"x" * (len(BIG) + 1)):
        partial.write_bytes(content)
        await puller().pull(NAME, MAIN)
        assert found(hub, MAIN) == {"main": BIG}
        next(hub.glob("*/snapshots/*/*")).unlink()
        partial.with_suffix("").unlink()


async def test_a_new_revision_becomes_the_current_one_when_it_is_whole(
    puller: Puller, site: HubSite, hub: Path, repo: Repo
) -> None:
    pulls = puller()
    await pulls.pull(NAME, MODEL)
    new = BIG[::-1]
    repo.files["m-Q4_0.gguf"], repo.commit = b"GGUF" + new, "b" * 40
    site.cut_after = [0] * 20
    with pytest.raises(ModelPullError):
        await pulls.pull(NAME, MODEL)
    assert found(hub, MODEL) == {"main": BIG, "mmproj": SMALL}
    site.cut_after.clear()
    site.asked.clear()
    await pulls.pull(NAME, MODEL)
    assert found(hub, MODEL) == {"main": b"GGUF" + new, "mmproj": SMALL}
    assert len(site.contents()) == 1  # the projector is the same


async def test_a_hub_that_asks_for_patience_gets_it(puller: Puller, site: HubSite, hub: Path) -> None:
    site.refuse = [(429, {"Retry-After": "1"}), (503, {})]
    await puller().pull(NAME, MAIN)
    assert found(hub, MAIN) == {"main": BIG}


@pytest.mark.parametrize(
    ("status", "code", "kind", "words"),
    [
        (429, None, HubBusyError, "limits how often it may be asked"),
        (401, "GatedRepo", HubAccessError, "is gated"),
        (403, "GatedRepo", HubAccessError, "accept its terms"),
        (403, None, HubAccessError, "refuses access"),
        (401, None, HubAccessError, "HF_TOKEN"),
        (401, "RepoNotFound", HubNotFoundError, "HF_TOKEN"),
        (404, "RepoNotFound", HubNotFoundError, "or it is private"),
        (500, None, ModelPullError, "answered 500"),
    ],
)
async def test_a_refusal_says_what_to_do(
    puller: Puller,
    repo: Repo,
    site: HubSite,
    status: int,
    code: str | None,
    kind: type[LemonpodError],
    words: str,
) -> None:
    repo.status, repo.error_code = status, code
    if status in {429, 500}:
        site.refuse = [(status, {"Retry-After": "3600"})] * 10
    with pytest.raises(kind) as caught:
        await puller().pull(NAME, MAIN)
    assert words in str(caught.value)


async def test_the_account_of_the_server_is_used(puller: Puller, site: HubSite) -> None:
    await puller(HF_TOKEN="hf_test").pull(NAME, MAIN)
    assert {asked.authorization for asked in site.asked if "/api/models/" in asked.path} == {"Bearer hf_test"}


async def test_a_pull_of_what_is_there_writes_nothing(
    puller: Puller, site: HubSite, hub: Path
) -> None:  # M13
    """So a cache may be read-only, or another user's."""
    pulls = puller()
    await pulls.pull(NAME, MODEL)
    before = {path: path.lstat() for path in (hub, *hub.rglob("*"))}
    await pulls.pull(NAME, MODEL)
    after = {path: path.lstat() for path in (hub, *hub.rglob("*"))}
    assert {p: (s.st_mtime_ns, s.st_ino) for p, s in after.items()} == {
        p: (s.st_mtime_ns, s.st_ino) for p, s in before.items()
    }


async def test_what_does_not_fit_on_the_disk_is_not_begun(puller: Puller, site: HubSite, repo: Repo) -> None:
    repo.sizes["m-Q4_0.gguf"] = 10**18
    with pytest.raises(NoSpaceError, match=r"1000000000\.0 GB are to be fetched"):
        await puller().pull(NAME, MAIN)
    assert not site.contents()


@pytest.mark.parametrize("word", ["1", "true", "ON"])
async def test_offline_means_offline(puller: Puller, site: HubSite, word: str) -> None:
    pulls = puller(HF_HUB_OFFLINE=word)
    for asking in (pulls.pull(NAME, MAIN), pulls.listing("org/repo")):
        with pytest.raises(HubOfflineError):
            await asking
    assert not site.asked


async def test_a_cache_that_huggingface_hub_wrote_is_gone_on_with(
    puller: Puller, site: HubSite, hub: Path
) -> None:
    await puller().pull(NAME, MAIN)
    for link in hub.glob("*/snapshots/*/*"):
        link.unlink()
    site.asked.clear()
    await puller().pull(NAME, MODEL)
    assert [asked.path for asked in site.contents()] == ["/cdn/org/repo/resolve/mmproj.gguf"]
    assert found(hub, MODEL) == {"main": BIG, "mmproj": SMALL}


async def test_a_file_whose_folder_was_a_file(puller: Puller, site: HubSite, hub: Path) -> None:
    hub.parent.mkdir(parents=True, exist_ok=True)
    hub.write_text("")
    with pytest.raises(ModelPullError, match=r"cannot be read or written: .*hub"):
        await puller().pull(NAME, MAIN)


@pytest.mark.parametrize(
    "path", ["../x.gguf", "a//x.gguf", "./x.gguf", "a\\x.gguf", "/etc/x.gguf", "a\0.gguf", "a\n.gguf"]
)
async def test_the_hubs_names_do_not_lead_out_of_the_cache(
    puller: Puller, site: HubSite, hub: Path, path: str
) -> None:  # M11
    site.repos["org/evil"] = Repo({path: SMALL})
    with pytest.raises(ModelPullError, match="answer for 'org/evil' is none"):
        await puller().pull(NAME, Order(checkpoints={"main": "org/evil"}))
    assert not site.contents()


async def test_what_is_wrong_is_told_before_the_plan(puller: Puller, repo: Repo) -> None:
    planned: list[str] = []

    async def plan() -> None:
        planned.append("yes")

    with pytest.raises(InvalidModelError):
        await puller().pull(NAME, Order(checkpoints={"main": "org/repo"}, exact=True), plan)
    assert not planned
    await puller().pull(NAME, MAIN, plan)
    assert planned


async def test_a_job_of_its_own_needs_nobody(puller: Puller, site: HubSite, hub: Path) -> None:
    site.gate = threading.Event()
    pulls = puller()
    job = await pulls.start(NAME, MAIN)
    await until(lambda: job.progress.bytes_downloaded)
    await pulls.stop(job, JobState.PAUSED)
    assert (job.running, job.state) == (False, JobState.PAUSED)
    site.gate.set()
    again = await pulls.start(NAME, MAIN)
    await until(lambda: not again.running)
    assert again.state is JobState.COMPLETED
    assert pulls.jobs() == (again,)
    pulls.forget(again)
    assert pulls.jobs() == ()
