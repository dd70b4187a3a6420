"""Who types a command line, as far as it refers to them: their folder, variables and files."""

from __future__ import annotations

import os
from typing import Final

from lemonpod.launch.argv.values import Caller

MAX_BYTES: Final = 1 << 20
"""Of a file of variables, labels or a seccomp profile; one that has no end is not read to it."""


def this_caller() -> Caller:
    """Whoever runs this process."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # it has been removed
        folder = "/"
    return Caller(cwd=folder, env=os.environ, read=_read)


def _read(path: str) -> str:
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(None, f"more than {MAX_BYTES} bytes", path)
    return content.decode()
