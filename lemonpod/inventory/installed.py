"""Reads what is installed of a recipe. Only the receipts: installing is nothing that the server can do."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from lemonpod.errors import ConfigError, InstallError
from lemonpod.launch.installed import RECEIPT, Install, Installs, parse_receipt
from lemonpod.models.json_file import parse_object, read_bytes

_NAME: Final = re.compile(r"([0-9]{1,9})-[0-9a-f]{12}", re.ASCII)


def find_installs(folder: Path) -> Installs:
    """What is in a recipe's folder; reads the disk. A folder that cannot be read holds nothing to launch."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(
                (entry.name, entry.is_dir(follow_symlinks=False), _is_file(entry)) for entry in entries
            )
    except (FileNotFoundError, NotADirectoryError):
        return Installs()
    except OSError as error:
        return Installs(problems=(f"{folder} cannot be read: {error.strerror}",))
    installs, problems = [], []
    for name, is_folder, _ in found:
        if not is_folder or not (match := _NAME.fullmatch(name)):
            continue
        path = folder / name / RECEIPT
        try:
            if (data := read_bytes(path)) is None:
                raise InstallError("is missing")
            receipt = parse_receipt(parse_object(data))
        except (ConfigError, InstallError) as error:
            problems.append(f"{path} {error.message}")
            continue
        installs.append(Install(number=int(match[1]), folder=folder / name, receipt=receipt))
    own = frozenset(name for name, _, is_file in found if is_file and not name.startswith("."))
    return Installs(installs=tuple(installs), own=own, problems=tuple(problems))


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link into nowhere, or in circles
        return False
