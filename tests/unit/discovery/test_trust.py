"""F09: who could have written a file, and everything above it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lemonpod.discovery.paths import Scope
from lemonpod.discovery.read import MAX_BYTES
from lemonpod.discovery.trust import directory_problems, read_trusted
from lemonpod.errors import ManifestError, UntrustedFileError
from tests.users import NOBODY, bound_by_modes, open_folder

ME = os.geteuid()
as_root = pytest.mark.skipif(ME != 0, reason="only root gives files away")


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "engine.json"
    path.write_text("{}")
    path.chmod(0o644)
    return path


def distrust(path: Path, scope: Scope | None = Scope.USER_CONFIG, euid: int = ME) -> UntrustedFileError:
    with pytest.raises(UntrustedFileError) as refused:
        read_trusted(path, scope, euid)
    return refused.value


def test_a_file_of_ones_own_is_read(manifest: Path) -> None:
    content = read_trusted(manifest, Scope.USER_CONFIG, ME)
    assert content.data == b"{}"
    assert content.status.st_ino == manifest.stat().st_ino


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o620, 0o777])
@pytest.mark.parametrize("scope", [Scope.USER_CONFIG, Scope.USER_CACHE, None])
def test_a_file_that_others_may_write_is_refused_with_the_cure(
    manifest: Path, mode: int, scope: Scope | None
) -> None:  # F09
    manifest.chmod(mode)
    refused = distrust(manifest, scope)
    assert refused.reason == "file is group or world writable (mode & 0022)"
    assert refused.problems[0].hint == f"chmod go-w {manifest}"


def test_the_cure_can_be_pasted_whatever_the_name(tmp_path: Path) -> None:
    path = tmp_path / "my engine's.json"
    path.write_text("{}")
    path.chmod(0o666)
    hint = distrust(path).problems[0].hint
    assert hint is not None
    assert os.system(hint) == 0
    assert read_trusted(path, Scope.USER_CONFIG, ME).data == b"{}"


def test_a_link_is_refused_wherever_it_leads(manifest: Path) -> None:  # F09
    for target in (manifest, manifest.parent / "nowhere"):
        link = manifest.parent / "link.json"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert distrust(link).reason == "symlinked descriptor files are not permitted"


def test_what_is_no_regular_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:  # F09
    fifo, folder, endpoint = tmp_path / "fifo.json", tmp_path / "folder.json", tmp_path / "s.json"
    os.mkfifo(fifo)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(endpoint))
        for path in (fifo, folder, endpoint, Path("/dev/zero")):
            assert distrust(path).reason == "not a regular file"


def test_somebody_elses_file_is_refused(manifest: Path) -> None:  # F09
    refused = distrust(manifest, euid=ME + 1)
    assert refused.reason == "descriptor owner UID does not match the current user"
    assert f"chown {ME + 1}" in str(refused)


@as_root
def test_a_file_of_nobody_is_refused_for_root(manifest: Path) -> None:  # F09
    os.chown(manifest, NOBODY, NOBODY)
    assert distrust(manifest).reason == "descriptor owner UID does not match the current user"
    assert distrust(manifest, Scope.SYSTEM).reason == "system descriptor is not owned by root (UID 0)"
    assert distrust(manifest, Scope.SHIPPED).reason == "descriptor owner UID does not match the current user"
    assert read_trusted(manifest, Scope.USER_CONFIG, NOBODY).data == b"{}"


@as_root
def test_a_system_file_is_roots_whoever_runs_the_server(manifest: Path) -> None:
    assert read_trusted(manifest, Scope.SYSTEM, 1000).data == b"{}"
    assert read_trusted(manifest, Scope.SHIPPED, 1000).data == b"{}"


def test_a_shipped_file_may_be_group_writable_as_the_code_beside_it(manifest: Path) -> None:
    manifest.chmod(0o664)
    manifest.parent.chmod(0o775)
    assert read_trusted(manifest, Scope.SHIPPED, ME).data == b"{}"
    assert directory_problems(manifest.parent, Scope.SHIPPED, ME) == ()


def test_a_file_in_no_directory_of_ours_may_be_anybodys(manifest: Path) -> None:
    assert read_trusted(manifest, None, ME + 1).data == b"{}"


def test_a_file_that_is_gone_is_gone_and_not_untrusted(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trusted(tmp_path / "gone.json", Scope.USER_CONFIG, ME)


def test_a_file_that_cannot_be_opened_is_not_untrusted() -> None:
    with open_folder() as folder:
        manifest = folder / "engine.json"
        manifest.touch(mode=0)
        with bound_by_modes(), pytest.raises(ManifestError, match="cannot open file") as refused:
            read_trusted(manifest, Scope.USER_CONFIG, ME)
    assert not isinstance(refused.value, UntrustedFileError)


def test_a_name_that_no_system_can_hold_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="cannot stat file"):
        read_trusted(tmp_path / f"{'x' * 300}.json", Scope.USER_CONFIG, ME)


def test_no_more_is_read_than_tells_that_it_is_too_much(manifest: Path) -> None:  # F03
    with manifest.open("r+b") as file:
        file.truncate(50 << 20)
    assert len(read_trusted(manifest, Scope.USER_CONFIG, ME).data) == MAX_BYTES + 1


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_directory_above_that_others_may_write_is_named(
    tmp_path: Path, mode: int, depth: int
) -> None:  # F09
    directory = tmp_path / "a" / "b" / "c"
    directory.mkdir(parents=True)
    loose = [directory, *directory.parents][depth]
    loose.chmod(mode)
    (problem,) = directory_problems(directory, Scope.USER_CONFIG, ME)
    assert problem.message == (f"ancestor directory '{loose}' is group/world writable without the sticky bit")
    assert problem.hint == f"chmod go-w {loose}"


def test_a_sticky_directory_is_fine(tmp_path: Path) -> None:  # F09
    directory = tmp_path / "a"
    directory.mkdir()
    tmp_path.chmod(0o1777)
    assert directory_problems(directory, Scope.USER_CONFIG, ME) == ()


def test_a_link_of_ones_own_is_followed_and_what_it_leads_through_is_checked(tmp_path: Path) -> None:  # F09
    real = tmp_path / "real" / "deeper"
    real.mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(real)
    (tmp_path / "relative").symlink_to("real/../real/deeper")
    for name in ("absolute", "relative"):
        assert directory_problems(tmp_path / name, Scope.USER_CONFIG, ME) == ()
    real.parent.chmod(0o777)
    for name in ("absolute", "relative"):
        problems = directory_problems(tmp_path / name, Scope.USER_CONFIG, ME)
        assert {problem.hint for problem in problems} == {f"chmod go-w {real.parent}"}


@as_root
def test_a_link_of_somebody_else_is_refused_and_not_followed(tmp_path: Path) -> None:  # F09
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    (problem,) = directory_problems(link, Scope.USER_CONFIG, ME)
    assert problem.message == f"ancestor directory '{link}' is a symlink"
    assert directory_problems(link, Scope.USER_CONFIG, NOBODY) == ()


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        directory_problems(tmp_path / "a", Scope.USER_CONFIG, ME)
