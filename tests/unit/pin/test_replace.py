"""A file exchanged in one step, or left alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lemonpod.pin.replace import ReplaceError, replace_file
from tests.users import NOBODY, bound_by_modes, open_folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "folder/m.json"
    path.parent.mkdir()
    path.write_bytes(b"old")
    path.chmod(0o640)
    return path


def test_mode_stays_and_nothing_is_left_beside_it(file: Path) -> None:
    replace_file(file, b"old", b"new")

    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(file.parent) == ["m.json"]


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to("folder/m.json")

    replace_file(link, b"old", b"new")

    assert link.is_symlink()
    assert file.read_bytes() == b"new"


@pytest.mark.parametrize("now", [b"older", b"ol", b"OLD"])
def test_a_file_that_has_changed_stays(file: Path, now: bytes) -> None:
    file.write_bytes(now)

    with pytest.raises(ReplaceError, match="changed meanwhile"):
        replace_file(file, b"old", b"new")
    assert file.read_bytes() == now
    assert os.listdir(file.parent) == ["m.json"]


def test_a_file_that_is_gone_says_so(file: Path) -> None:
    shutil.rmtree(file.parent)

    with pytest.raises(ReplaceError, match="No such file"):
        replace_file(file, b"old", b"new")


def test_a_file_that_is_read_only_stays_though_its_folder_is_not() -> None:
    with open_folder() as folder:
        folder.chmod(0o777)
        file = folder / "m.json"
        file.write_bytes(b"old")
        file.chmod(0o444)

        with bound_by_modes(), pytest.raises(ReplaceError, match="may not write the file"):
            replace_file(file, b"old", b"new")
        assert file.read_bytes() == b"old"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_file_keeps_its_owner_or_stays(file: Path) -> None:
    os.chown(file, NOBODY, NOBODY)
    replace_file(file, b"old", b"new")
    assert (file.stat().st_uid, file.stat().st_gid) == (NOBODY, NOBODY)

    with open_folder() as folder:
        folder.chmod(0o777)
        other = folder / "m.json"
        other.write_bytes(b"old")
        other.chmod(0o666)
        with bound_by_modes(), pytest.raises(ReplaceError, match="owner and group cannot be kept"):
            replace_file(other, b"old", b"new")
        assert (other.read_bytes(), other.stat().st_uid) == (b"old", 0)
