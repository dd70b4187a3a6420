"""What commands that need no server know of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lemonpod.config import Folders
    from lemonpod.inventory.inventory import Inventory


def folders(cache_dir: Path | None, config_dir: Path | None) -> Folders:
    """The folders that a command's options and the environment say."""
    from lemonpod.config import find_folders

    return find_folders(os.environ, cache=cache_dir, config=config_dir)


def inventory(cache_dir: Path | None, config_dir: Path | None) -> Inventory:
    """The recipes and models that a server with these folders would serve."""
    from lemonpod import bootstrap

    keep_the_log_quiet()
    return bootstrap.local_inventory(folders(cache_dir, config_dir), os.environ)


def keep_the_log_quiet() -> None:
    """A command shows what was refused itself, where somebody asks for it."""
    import logging

    logging.getLogger("lemonpod").addHandler(logging.NullHandler())
