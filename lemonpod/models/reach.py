"""What a name in the cache leads to, over however many links, whoever made them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from lemonpod.models.entry import ModelEntry, Origin
from lemonpod.models.variants import shards

_MAX_LINKS: Final = 40
"""In a row, as the kernel has it."""


def place(path: Path) -> Path:
    """The one spelling of a name: links in the way to it are followed, a link that it is itself is not."""
    return Path(os.path.realpath(path.parent), path.name)


def passed(path: Path) -> Iterator[Path]:
    """The places on the way from a name to its content; both ends are among them."""
    for _ in range(_MAX_LINKS):
        here = place(path)
        yield here
        if not here.is_symlink():
            return
        path = here.parent / here.readlink()


def own_paths(entries: Iterable[ModelEntry]) -> Iterator[Path]:
    """What models were registered with by path: it may lie in the cache too."""
    for entry in entries:
        for ref in entry.checkpoints.values():
            if ref.origin is Origin.LOCAL_PATH:
                yield Path(ref.text)


def needed_for(files: Iterable[Path]) -> set[Path]:
    """Every place that must stay so that these files and folders can be read, each with all its shards."""
    needed: set[Path] = set()
    for path in files:
        for name in shards(path.name):
            needed.update(passed(path.with_name(name)))
        for parent, _, names in os.walk(path):
            for name in names:
                needed.update(passed(Path(parent, name)))
    return needed
