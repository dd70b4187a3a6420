"""Programs on this machine, looked for as a start would find them."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lemonpod.launch.environment import DEFAULT_PATH

_LLVM: Final = Path("llvm", "lib")


class InstalledPrograms:
    """What `environ` can reach; `own` is the folder of our own environment's console programs."""

    def __init__(self, environ: Mapping[str, str], own: str) -> None:
        path = os.pathsep.join([environ.get("PATH") or DEFAULT_PATH, own])
        # An empty or relative entry would search the working folder: nobody means that for a server.
        self._path = os.pathsep.join(folder for folder in path.split(os.pathsep) if os.path.isabs(folder))

    def usable(self, path: Path) -> bool:
        try:
            return stat.S_ISREG(path.stat().st_mode) and os.access(path, os.X_OK)
        except (OSError, ValueError):
            return False

    def on_path(self, name: str) -> Path | None:
        if os.sep in name:
            return None
        found = shutil.which(name, path=self._path)
        return None if found is None else Path(found)

    def below(self, folder: Path, name: str) -> Path | None:
        if self.usable(folder / name):
            return folder / name
        found = (Path(parent, name) for parent, _, names in os.walk(folder) if name in names)
        return min((path for path in found if self.usable(path)), key=_depth, default=None)

    def libraries(self, folder: Path, arch: str) -> tuple[Path, ...]:
        releases = sorted(folder.glob(f"{arch}-*/lib"), key=_modified)
        if not releases:
            return ()
        newest = releases[-1]
        return tuple(path for path in (newest, newest / _LLVM) if path.is_dir())


def _depth(path: Path) -> tuple[int, Path]:
    return len(path.parts), path


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # removed meanwhile
        return 0
