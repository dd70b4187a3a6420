"""Machines as documents: those of tests/data/hardware, and what a test changes about them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from lemonpod.host.detect import detect
from lemonpod.host.document import document
from lemonpod.host.facts import HostFacts

FOLDER = Path(__file__).parent / "data" / "hardware"
FILES = sorted(FOLDER.glob("*.json"))


def machine(name: str) -> dict[str, Any]:
    """One of the documents, to be changed."""
    document: dict[str, Any] = copy.deepcopy(json.loads((FOLDER / f"{name}.json").read_bytes()))
    return document


def facts_of(machine: dict[str, Any]) -> HostFacts:
    return detect(document(machine))


def pci_function(
    machine: dict[str, Any], address: str, *, ids: str, pci_class: int, driver: str | None, **files: str
) -> str:
    """Add a PCI function, as `ids="10de:2684"`; returns its folder."""
    vendor, _, device = ids.partition(":")
    path = f"/sys/devices/pci{address[:7]}/{address}"
    said = {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": f"0x{pci_class:06x}", **files}
    machine["files"] |= {f"{path}/{name}": f"{text}\n" for name, text in said.items()}
    machine["links"][f"/sys/bus/pci/devices/{address}"] = f"../../../devices/pci{address[:7]}/{address}"
    if driver is not None:
        machine["links"][f"{path}/driver"] = f"../../../bus/pci/drivers/{driver}"
        machine["dirs"].append(f"/sys/bus/pci/drivers/{driver}")
    return path


def drm(machine: dict[str, Any], path: str, *names: str) -> None:
    """Give a device a card or a render node; the node in /dev is open to everybody."""
    for name in names:
        machine["links"][f"/sys/class/drm/{name}"] = f"../../..{path}/drm/{name}"
        machine["links"][f"{path}/drm/{name}/device"] = "../.."
        machine["nodes"].append({"path": f"/dev/dri/{name}", "mode": "0666", "uid": 0, "gid": "root"})


def bare() -> dict[str, Any]:
    """A machine without anything to compute on but its processor."""
    return machine("empty-sys")
