from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from lemonpod.drivers.state import EngineRecord, RunFile, dead_runs


def record(number: int, *, stop: tuple[str, ...] | None = None) -> EngineRecord:
    return EngineRecord(number=number, model="m", pid=1, create_time=1.25, port=8001, stop=stop)


def crash(run: RunFile) -> None:
    """The server is gone, and its lock with it."""
    assert run._fd is not None
    os.close(run._fd)
    run._fd = None


def found(folder: Path) -> list[tuple[str, tuple[EngineRecord, ...]]]:
    runs = dead_runs(folder)
    for run in runs:
        run.close()
    return [(run.id, run.engines) for run in runs]


def test_a_living_server_is_left_alone_and_a_dead_one_is_found(tmp_path: Path) -> None:
    run = RunFile(tmp_path / "state")
    run.open()
    run.add(record(1))
    run.add(record(2, stop=("podman", "rm")))
    run.remove(1)
    assert found(tmp_path / "state") == []
    crash(run)
    assert found(tmp_path / "state") == [(run.id, (record(2, stop=("podman", "rm")),))]


def test_a_clean_end_leaves_no_file_and_an_unclean_one_does(tmp_path: Path) -> None:
    clean, unclean = RunFile(tmp_path / "state"), RunFile(tmp_path / "state")
    for run in (clean, unclean):
        run.open()
        run.open()
        run.add(record(1))
    clean.remove(1)
    clean.remove(1)
    clean.close()
    clean.close()
    unclean.close()
    assert [path.name for path in (tmp_path / "state").iterdir()] == [f"engines-{unclean.id}.json"]


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    run = RunFile(tmp_path / "state")
    run.open()
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    (path,) = (tmp_path / "state").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    run.close()


@pytest.mark.parametrize(
    "content", [b"", b"[{", b"\xff", b"{}", b"[1]", b'[{"number": 1}]', b'["x"]', b"null"]
)
def test_a_file_that_was_cut_short_still_names_its_run(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "engines-abc.json").write_bytes(content)
    assert found(tmp_path) == [("abc", ())]


def test_a_shorter_record_leaves_nothing_of_the_longer_one(tmp_path: Path) -> None:
    run = RunFile(tmp_path / "state")
    run.open()
    for number in range(20):
        run.add(record(number))
    for number in range(19):
        run.remove(number)
    (path,) = (tmp_path / "state").iterdir()
    assert len(json.loads(path.read_bytes())) == 1
    run.remove(19)
    run.close()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("[]")
    (tmp_path / "engines-x.json").symlink_to(tmp_path / "target")
    assert found(tmp_path) == []
