"""The manifest files that a command was given."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

from lemonpod.errors import ConfigError


def manifest_files(given: Iterable[Path], *, parameter: str) -> Iterator[Path]:
    """The files themselves, and of a folder what discovery would look at."""
    from lemonpod.discovery.catalog import manifest_names

    for path in given:
        if not os.path.isdir(path):  # nor one that cannot be reached, of which its report tells
            yield path
            continue
        try:
            names = manifest_names(path)
        except OSError as error:
            raise ConfigError(f"{path}: cannot read directory: {error.strerror}") from error
        if not names:
            raise typer.BadParameter(f"no manifest in the folder {path}", param_hint=parameter)
        yield from (path / name for name in names)
