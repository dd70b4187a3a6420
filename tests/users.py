"""Being somebody else for a moment: modes of files bind everybody but root."""

from __future__ import annotations

import os
import shutil
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


@contextmanager
def open_folder() -> Iterator[Path]:
    """A new folder that every user can reach, as the folders that pytest makes are not."""
    folder = Path(tempfile.mkdtemp(prefix="lemonpod-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
