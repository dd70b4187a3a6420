"""Installs from a real HTTPS server: whole or not at all, side by side, kept while they run.  # F15"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lemonpod.drivers.spawn import spawn
from lemonpod.errors import ArchiveError, DownloadError, InstallError
from lemonpod.install import place
from lemonpod.install.installing import same_digest
from lemonpod.inventory.installed import find_installs
from lemonpod.launch.installed import Artifact, Receipt
from tests.archives import SCRIPT, many_entries, many_listed, member, tar, tar_of, zeros_gz
from tests.https_site import Site
from tests.unit.install.recipes import digest, parsed, run
from tests.unit.install.test_unpack import HOSTILE

SLEEPER = b"#!/bin/sh\nexec sleep 600\n"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def folder(cache: Path) -> Path:
    """Where everything of the recipe is."""
    return cache / "external/test-engine"


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def numbered(folder: Path) -> list[str]:
    return sorted(path.name[:4] for path in folder.iterdir() if path.is_dir())


def test_an_archive(site: Site, cache: Path, folder: Path) -> None:
    content = tar_of({"llama-b1/server": SCRIPT, "llama-b1/lib.so": b"x"})
    path = run(parsed(site.add("/a.tar.gz", content), digest(content)), cache)

    (install,) = find_installs(folder).installs
    assert path == install.folder / "files/llama-b1/server" == install.executable("server")
    assert path.read_bytes() == SCRIPT
    assert install.receipt == Receipt(
        source=f"{site.url}/a.tar.gz", sha256=digest(content), binaries={"server": "llama-b1/server"}
    )
    assert sorted(entry.name for entry in folder.iterdir()) == [install.folder.name, "server"]
    assert (folder / "server").resolve() == path  # where Lemonade's own server looks


def test_a_bare_executable_takes_the_name_of_the_binary(site: Site, cache: Path) -> None:
    path = run(parsed(site.add("/llama-b1-x64", SCRIPT), digest(SCRIPT)), cache)

    assert path.name == "server"
    assert subprocess.run([path], capture_output=True, check=True).stdout == b"run\n"


def test_a_wrong_digest_is_refused_before_anything_is_unpacked(site: Site, cache: Path, folder: Path) -> None:
    bad = tar_of({"../server": SCRIPT})  # unpacking it would be another error
    with pytest.raises(DownloadError, match="is not what the manifest pins"):
        run(parsed(site.add("/a.tar.gz", bad), digest(b"other")), cache)

    assert not folder.exists()
    assert len(site.asked) == 1


def test_halves_of_two_files_are_fetched_once_more(site: Site, cache: Path) -> None:
    """A server without ETag, whose file changed between two commands."""
    content = tar_of({"server": SCRIPT})
    manifest = parsed(site.add("/a.tar.gz", content, etag=None), digest(content))
    site.pages["/a.tar.gz"].content = bytes(len(content))
    site.pages["/a.tar.gz"].break_after = [30]
    site.pages["/a.tar.gz"].statuses = [200, 404]
    with pytest.raises(DownloadError, match="answers 404"):
        run(manifest, cache)
    site.add("/a.tar.gz", content, etag=None)

    assert run(manifest, cache).read_bytes() == SCRIPT
    assert [asked for _, asked, _ in site.asked] == [None, "bytes=30-", "bytes=30-", None]


def test_halves_of_two_files_within_one_command(site: Site, cache: Path) -> None:
    """Of two servers behind one name, say."""
    content = tar_of({"server": SCRIPT})
    manifest = parsed(site.add("/a.tar.gz", content, etag=None), digest(content))
    site.pages["/a.tar.gz"].break_after = [30]
    site.pages["/a.tar.gz"].others = [bytes(len(content))]

    assert run(manifest, cache).read_bytes() == SCRIPT
    assert [asked for _, asked, _ in site.asked] == [None, "bytes=30-", None]


def test_what_is_refused_leaves_the_old_one_alone(site: Site, cache: Path, folder: Path) -> None:  # F15
    source = site.add("/a.tar.gz", tar_of({"server": SCRIPT}))
    old = run(parsed(source, None), cache)
    before = sorted(folder.rglob("*"))
    for content in (tar_of({"../server": b""}), tar_of({"other": b""}), b"<html>", b""):
        site.add("/a.tar.gz", content)
        with pytest.raises(InstallError):
            run(parsed(source, None), cache)

    assert old.read_bytes() == SCRIPT
    assert sorted(folder.rglob("*")) == before


def test_nothing_is_left_of_a_refused_first_one(site: Site, cache: Path, folder: Path) -> None:
    with pytest.raises(ArchiveError, match=r"failed to extract a\.tar\.gz"):
        run(parsed(site.add("/a.tar.gz", tar([member("/etc/x")])), None), cache)

    assert not folder.exists()


@pytest.mark.parametrize("name", [*HOSTILE, "ten gigabytes", "a million entries", "a million listed"])
def test_nothing_is_left_of_any_hostile_one(
    site: Site, tmp_path: Path, cache: Path, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetched and pinned as its author meant it; not even the download stays."""
    monkeypatch.setattr("lemonpod.install.archive.tree.ENTRIES", 1000)
    made: dict[str, Callable[[], bytes]] = {
        "ten gigabytes": lambda: zeros_gz(10),
        "a million entries": lambda: many_entries(1_000_000),
        "a million listed": lambda: many_listed(1_000_000, zip64=True),
    }
    content = made[name]() if name in made else tar([member("server", SCRIPT), *HOSTILE[name]])
    with pytest.raises(ArchiveError):
        run(parsed(site.add("/a", content), digest(content)), cache)

    assert not folder.exists()
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_all_of_it_is_on_the_disk_before_it_appears(
    site: Site, cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def fsync(descriptor: int, real: Callable[[int], None] = os.fsync) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), folder))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    content = tar([member("x/server", SCRIPT), member("link", type=tarfile.SYMTYPE, linkname="x/server")])
    run(parsed(site.add("/a.tar.gz", content), digest(content)), cache)

    stage = ".new-install"
    files = {f"{stage}{name}" for name in ("", "/receipt.json", "/files", "/files/x", "/files/x/server")}
    assert set(synced[:-1]) == files
    assert synced[-1] == "."


def test_no_binary(site: Site, cache: Path, folder: Path) -> None:
    with pytest.raises(
        InstallError, match=r"no binary found in installed artifact: a\.tgz holds no file 'server'"
    ):
        run(parsed(site.add("/a.tgz", tar_of({"other": SCRIPT})), None), cache)
    assert not folder.exists()


def test_what_rolls_forward_gives_way_to_the_next(site: Site, cache: Path, folder: Path) -> None:
    source = site.add("/a", SCRIPT)
    old = run(parsed(source, None), cache)
    site.add("/a", SCRIPT + b"# next", etag='"2"')
    new = run(parsed(source, None), cache)

    assert new.read_bytes().endswith(b"next")
    assert not old.exists()
    assert numbered(folder) == ["0002"]


def test_the_same_once_more_is_a_repair(site: Site, cache: Path, folder: Path) -> None:
    manifest = parsed(site.add("/a", SCRIPT), digest(SCRIPT))
    run(manifest, cache).write_bytes(b"damaged")

    assert run(manifest, cache).read_bytes() == SCRIPT
    assert numbered(folder) == ["0002"]


def test_artifacts_of_several_blocks_live_side_by_side(site: Site, cache: Path, folder: Path) -> None:
    from lemonpod.contract.parse import parse_manifest
    from tests.factories import make_document

    def document(cuda: bytes) -> dict[str, object]:
        blocks = {
            name: {"binary": "server", "source": site.add(f"/{name}", content), "sha256": digest(content)}
            for name, content in {"cpu": SCRIPT + b"# cpu", "cuda": cuda}.items()
        }
        return make_document(variant_of="llamacpp", platforms={"linux": blocks})

    manifest = parse_manifest(document(SCRIPT + b"# cuda 1"))
    cpu, cuda = (run(manifest, cache, accelerator=name) for name in ("cpu", "cuda"))
    assert (cpu.read_bytes(), cuda.read_bytes()) == (SCRIPT + b"# cpu", SCRIPT + b"# cuda 1")

    newer = run(parse_manifest(document(SCRIPT + b"# cuda 2")), cache, accelerator="cuda")
    assert cpu.exists()
    assert newer.exists()
    assert not cuda.exists()  # no block names it any more


def test_a_running_engine_keeps_its_files(
    site: Site, cache: Path, folder: Path, running: list[subprocess.Popen[bytes]]
) -> None:
    source = site.add("/a.tgz", tar_of({"server": SLEEPER, "late.txt": b"old"}))
    old = run(parsed(source, None), cache)
    (install,) = find_installs(folder).installs
    process = spawn([str(old)], env={"PATH": os.environ["PATH"]}, cwd=None, held=install.folder)
    running.append(process)
    site.add("/a.tgz", tar_of({"server": SLEEPER, "late.txt": b"new"}), etag='"2"')
    new = run(parsed(source, None), cache)

    assert (old.with_name("late.txt").read_bytes(), new.with_name("late.txt").read_bytes()) == (
        b"old",
        b"new",
    )
    newest = find_installs(folder).of(Artifact(source=source, sha256=None))
    assert newest is not None
    assert newest.executable("server") == new
    assert place.in_use(folder) == install

    end(process)
    assert place.in_use(folder) is None
    run(parsed(source, None), cache)
    assert numbered(folder) == ["0003"]


def test_an_own_file_of_that_name_stays(site: Site, cache: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "server").write_text("mine")
    (folder / "3-bit").mkdir()
    path = run(parsed(site.add("/a", SCRIPT), digest(SCRIPT)), cache)

    assert (folder / "server").read_text() == "mine"
    assert (folder / "3-bit").exists()
    assert path.read_bytes() == SCRIPT


def test_two_at_once(site: Site, cache: Path, folder: Path) -> None:
    manifest = parsed(site.add("/a", SCRIPT), digest(SCRIPT))
    with place.locked(folder), pytest.raises(InstallError, match="another command installs or removes"):
        run(manifest, cache)

    assert run(manifest, cache).exists()


def test_what_is_in_the_way_of_staging_is_removed(site: Site, cache: Path, folder: Path) -> None:
    content = tar_of({"server": SCRIPT})
    folder.mkdir(parents=True)
    (folder / ".new-install").write_text("no folder")

    assert run(parsed(site.add("/a.tar.gz", content), digest(content)), cache).read_bytes() == SCRIPT


def test_what_a_killed_command_left_is_swept(site: Site, cache: Path, folder: Path) -> None:
    stage = folder / ".new-install/files"
    stage.mkdir(parents=True)
    (stage / "half").write_text("")
    (folder / ".new-link").symlink_to("nowhere")
    (folder / "0007-0123456789ab").mkdir()
    run(parsed(site.add("/a", SCRIPT), digest(SCRIPT)), cache)

    assert sorted(path.name[:4] for path in folder.iterdir()) == ["0008", "serv"]


def test_a_folder_that_cannot_be_written(site: Site, cache: Path) -> None:
    cache.mkdir()
    (cache / "external").write_text("a file")
    with pytest.raises(
        InstallError, match=r"external/test-engine cannot be written: (Not a directory|File exists)"
    ):
        run(parsed(site.add("/a", SCRIPT), digest(SCRIPT)), cache)
    assert site.asked == []


@pytest.mark.parametrize("one", ["SHA256:", "sha256:", ""])
@pytest.mark.parametrize("other", ["sha256:", ""])
def test_digests_in_any_notation(one: str, other: str) -> None:  # F15
    assert same_digest(one + "AB" * 32, other + "ab" * 32)
    assert not same_digest(one + "ab" * 32, other + "ac" * 32)


@pytest.mark.parametrize(
    "receipt",
    [
        None,
        b"",
        b"{",
        b"[]",
        b'{"format": 2, "source": "x", "sha256": "y", "binaries": {}}',
        json.dumps({"format": 1, "source": "x", "sha256": "y", "binaries": {"a": "../../b"}}).encode(),
        json.dumps({"format": 1, "source": "x", "sha256": "y", "binaries": {"a": "/b"}}).encode(),
        json.dumps({"format": 1, "source": "x", "sha256": "y", "binaries": [1]}).encode(),
    ],
)
def test_a_receipt_that_we_did_not_write_is_none(tmp_path: Path, receipt: bytes | None) -> None:
    install = tmp_path / "0001-0123456789ab"
    install.mkdir()
    if receipt is not None:
        (install / "receipt.json").write_bytes(receipt)
    found = find_installs(tmp_path)

    assert found.installs == ()
    assert [str(install / "receipt.json") in problem for problem in found.problems] == [True]
