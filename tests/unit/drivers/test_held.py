"""What an engine runs from stays while it runs: its process inherits a lock of the folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from lemonpod.drivers.spawn import spawn
from lemonpod.errors import SpawnError

ENV = {"PATH": os.environ["PATH"]}


def is_held(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_until_the_last_process_of_the_tree_has_ended(tmp_path: Path) -> None:
    """Also the one whose parent has left."""
    process = spawn(["sh", "-c", "sleep 600 & echo $!"], env=ENV, cwd=None, held=tmp_path)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.wait()
    assert is_held(tmp_path)

    os.kill(child, 9)
    process.stdout.read()
    process.stdout.close()
    assert not is_held(tmp_path)


def test_nothing_is_started_from_what_is_being_removed(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(SpawnError, match="load the model again"):
        spawn(["true"], env=ENV, cwd=None, held=tmp_path)
    os.close(descriptor)


def test_nothing_is_started_from_what_is_gone(tmp_path: Path) -> None:
    with pytest.raises(SpawnError, match="gone: No such file or directory"):
        spawn(["true"], env=ENV, cwd=None, held=tmp_path / "gone")
