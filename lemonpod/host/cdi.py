"""The devices that Container Device Interface specs of this machine declare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")
_SUFFIXES: Final = frozenset({".json", ".yaml", ".yml"})
_MAX_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class CdiDevices:
    """Every name that is declared, and the files that could not be read with the reason."""

    names: frozenset[str]
    unreadable: tuple[str, ...]


def cdi_devices(root: Path) -> CdiDevices:
    """The names in all specs under `root`, as `nvidia.com/gpu=0`."""
    names: set[str] = set()
    unreadable: list[str] = []
    for folder in FOLDERS:
        place = root / folder.lstrip("/")
        for file in _specs(place):
            try:
                names.update(_names(_load(file)))
            except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
                why = getattr(error, "strerror", None) or "it is no CDI spec"
                unreadable.append(f"{folder}/{file.name}: {why}")
    return CdiDevices(frozenset(names), tuple(unreadable))


def _specs(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix in _SUFFIXES)
    except OSError:  # no folder is no spec
        return []


def _load(file: Path) -> Any:
    with file.open("rb") as stream:
        return yaml.load(stream.read(_MAX_BYTES), Loader=_LOADER)  # noqa: S506 - a safe loader, JSON is YAML


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _names(spec: Any) -> set[str]:
    if not isinstance(spec, dict) or not isinstance(spec.get("kind"), str):
        raise ValueError("no kind")
    devices = spec.get("devices")
    if not isinstance(devices, list) or not all(isinstance(one, dict) for one in devices):
        raise ValueError("no devices")
    return {f"{spec['kind']}={one.get('name')}" for one in devices}
