"""Being somebody else for a moment: modes of files bind everybody but root."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def bound_by_modes() -> Iterator[None]:
    """As a user whom modes bind: as nobody where the tests run as root, else as who runs them."""
    euid = os.geteuid()
    if euid == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(euid)


def python_bound_by_modes(folder: Path) -> str:
    """An interpreter whom modes bind, in `folder` where it must be made: this one, less root's privilege.

    Unlike nobody it can still reach what this one is made of, wherever that is.
    """
    if os.geteuid() != 0:
        return sys.executable
    path = folder / "python-bound-by-modes"
    less = "setpriv --bounding-set=-dac_override,-dac_read_search"
    path.write_text(f'#!/bin/sh\nexec {less} {shlex.quote(sys.executable)} "$@"\n')
    path.chmod(0o755)
    return str(path)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A new folder that every user can reach, as the folders that pytest makes are not."""
    folder = Path(tempfile.mkdtemp(prefix="lemonpod-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def folders_of_mode(mode: int, top: Path) -> Iterator[None]:
    """The folder and all in it, until the block ends."""
    folders = [top, *(path for path in top.rglob("*") if path.is_dir() and not path.is_symlink())]
    for folder in reversed(folders):
        folder.chmod(mode)
    try:
        yield
    finally:
        for folder in folders:
            folder.chmod(0o755)
