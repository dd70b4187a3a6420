"""Cards and render nodes of the kernel's graphics subsystem, by the device that they belong to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lemonpod.host.tree import Tree

_CLASS: Final = "/sys/class/drm"
_NODES: Final = "/dev/dri"
# Not connectors, as card1-DP-1 and card1-Writeback-1. The numbers of the two kinds have nothing to do with
# each other.
_CARD: Final = re.compile(r"card[0-9]+")
_RENDER: Final = re.compile(r"renderD[0-9]+")


@dataclass(frozen=True, slots=True)
class Minors:
    """What one device has: the names of its card and its render node."""

    card: str | None = None
    render: str | None = None

    def __str__(self) -> str:
        return "/".join(name for name in (self.card, self.render) if name)


def minors(tree: Tree) -> Mapping[str, Minors]:
    """Of every device, which is the path of its folder, what it has."""
    found: dict[str, Minors] = {}
    for name in tree.names(_CLASS):
        card, render = _CARD.fullmatch(name), _RENDER.fullmatch(name)
        device = tree.real(f"{_CLASS}/{name}/device") if card or render else None
        if device is not None:
            before = found.get(device, Minors())
            found[device] = Minors(before.card or name, before.render) if card else Minors(before.card, name)
    return MappingProxyType(found)


def render_path(minors: Minors | None) -> str | None:
    """Where the render node of a device would be, whether or not this process has it."""
    return f"{_NODES}/{minors.render}" if minors and minors.render else None
