"""Reads what is installed of a recipe. Only the receipts: installing is nothing that the server can do."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from lemonpod.errors import ConfigError
from lemonpod.launch.installed import RECEIPT, Install, Installs, parse_receipt
from lemonpod.models.json_file import parse_object, read_bytes

INSTALL_NAME: Final = re.compile(r"([0-9]{1,9})-[0-9a-f]{12}", re.ASCII)
"""Of the folder of an install: its number, and the beginning of a digest."""


def find_installs(folder: Path) -> Installs:
    """What is in a recipe's folder; reads the disk. A folder that cannot be read holds nothing to launch."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return Installs()
    except OSError as error:
        return Installs(problems=(f"{folder} cannot be read: {error.strerror}",))
    installs, problems = [], []
    for name in names:
        if not (match := INSTALL_NAME.fullmatch(name)):
            continue
        path = folder / name / RECEIPT
        try:
            if (data := read_bytes(path)) is None:
                raise ConfigError("is missing")
            receipt = parse_receipt(parse_object(data))
        except ConfigError as error:
            problems.append(f"{path} {error.message}")
            continue
        installs.append(Install(number=int(match[1]), folder=folder / name, receipt=receipt))
    return Installs(installs=tuple(installs), problems=tuple(problems))
