"""What was read of a machine as one document, for a bug report: with nothing in it about who owns it.

A capture is made by recording what detection asks for, so that it holds all that the facts came from and
nothing else. Of files that say more than facts, the lines that are asked for are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from lemonpod.host.devices import DeviceNode
from lemonpod.host.numbers import hexadecimal
from lemonpod.host.tree import Tree, resolve
from lemonpod.host.user import User

# The groups of device nodes that distributions have; a group of a site's own is a number.
_GROUPS: Final = frozenset({"root", "video", "render", "input", "kvm", "nogroup"})
_SOMEBODY: Final = 1000
_NOBODY: Final = 65534
_UUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_UNIQUE_ID: Final = re.compile(r"^(unique_id )([1-9][0-9]*)", re.MULTILINE)
_WSL: Final = "microsoft"


class Recorder:
    """A tree that remembers what it was asked, and answers as `tree` does."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.machine = tree.machine
        self.user = tree.user
        self.files: dict[str, str] = {}
        self.links: dict[str, str] = {}
        self.folders: set[str] = set()
        self.unreadable: set[str] = set()
        self.nodes: dict[str, DeviceNode] = {}
        self.opens: dict[str, bool] = {}

    def link(self, path: str) -> str | None:
        target = self._tree.link(path)
        if target is not None:
            self.links[path] = target
        return target

    def read(self, path: str) -> str | None:
        text = self._tree.read(path)
        place = self._followed(path)
        if place is not None and text is not None:
            self.files[place] = text
        elif place is not None and self._is_there(place):
            self.unreadable.add(place)
        return text

    def names(self, path: str) -> tuple[str, ...]:
        """What matters of it is asked for by name afterwards; /dev holds more than is anybody's business."""
        self._followed(path)
        return self._tree.names(path)

    def real(self, path: str) -> str | None:
        real = self._tree.real(path)
        if real is not None:
            self._followed(path)
            self._is_there(real)
        return real

    def node(self, path: str) -> DeviceNode | None:
        node = self._tree.node(path)
        place = self._followed(path)
        if node is not None and place is not None:
            self.nodes[place] = node
        return node

    def may_open(self, node: DeviceNode) -> bool:
        return self.opens.setdefault(node.path, self._tree.may_open(node))

    def group(self, number: int) -> str:
        return self._tree.group(number)

    def _followed(self, path: str) -> str | None:
        return resolve(path, self.link)

    def _is_there(self, place: str) -> bool:
        """Note that a place exists; whether it is a file."""
        if self._tree.names(place):
            self.folders.add(place)
            return False
        if self._tree.real(place) is None:
            return False
        self.files.setdefault(place, "")
        return True


def captured(recorder: Recorder) -> dict[str, Any]:
    """The document of all that a recorder was asked for."""
    groups: dict[str, int] = {}
    user = recorder.user

    def gid(number: int) -> int | str:
        name = recorder.group(number)
        if name in _GROUPS:
            groups[name] = number
            return name
        return _SOMEBODY if number == user.gid else number

    owner = User(
        uid=0 if user.is_root else _SOMEBODY,
        gid=user.gid if recorder.group(user.gid) in _GROUPS else _SOMEBODY,
        groups=user.groups & {node.gid for node in recorder.nodes.values()},
    )
    nodes = []
    for path, node in sorted(recorder.nodes.items()):
        uid = 0 if node.uid == 0 else _SOMEBODY if node.uid == user.uid else _NOBODY
        entry = {"path": path, "mode": f"{node.mode:04o}", "uid": uid, "gid": gid(node.gid)}
        opens = recorder.opens.get(node.path)
        if opens is not None and opens != replace(node, uid=uid, grants=()).may_open(owner):
            entry["open"] = opens  # an access list or a namespace says so, which a mode does not
        nodes.append(entry)
    document: dict[str, Any] = {
        "machine": recorder.machine,
        "user": {"uid": owner.uid, "gid": owner.gid, "groups": sorted(map(gid, owner.groups), key=str)},
        "groups": groups,
        "files": {path: _facts_of(path, text) for path, text in sorted(recorder.files.items())},
        "links": dict(sorted(recorder.links.items())),
        "dirs": sorted(recorder.folders),
        "nodes": nodes,
        "unreadable": sorted(recorder.unreadable),
    }
    serials = _Serials()
    return {name: serials.without(part) for name, part in document.items()}


def _lines(*names: str) -> Callable[[str], str]:
    """Keeps the lines that begin with one of the names."""
    wanted = re.compile(rf"(?:{'|'.join(names)})\s*[:=]")
    return lambda text: "".join(f"{line}\n" for line in text.splitlines() if wanted.match(line))


def _kernel(text: str) -> str:
    """Without who built it, and where."""
    kept = " ".join(text.split()[:3])
    said = {word for word in (_WSL,) if word in text.lower() and word not in kept.lower()}
    return " ".join((kept, *said)) + "\n"


def _driver(text: str) -> str:
    return re.sub(r"\([^)]*\)", "", text.partition("\n")[0]) + "\n"


_FACTS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {
        "/proc/version": _kernel,
        "/proc/cpuinfo": _lines(
            "processor", "vendor_id", "model name", "physical id", "core id", "CPU implementer"
        ),
        "/proc/meminfo": _lines("MemTotal"),
        "/proc/driver/nvidia/version": _driver,
        "/etc/os-release": _lines("NAME", "VERSION_ID"),
        "/usr/lib/os-release": _lines("NAME", "VERSION_ID"),
    }
)
_INFORMATION: Final = _lines("Model", "GPU UUID", "Device Minor")


def _facts_of(path: str, text: str) -> str:
    if path.startswith("/proc/driver/nvidia/gpus/"):
        return _INFORMATION(text)
    return _FACTS[path](text) if path in _FACTS else text


class _Serials:
    """Every number that only one device in the world has becomes the how-manieth it is here."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def without(self, value: Any) -> Any:
        """The part of a document with the serial numbers in its texts replaced, those in paths too."""
        if isinstance(value, dict):
            return {self._text(key): self._of_file(key, entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [self.without(entry) for entry in value]
        return self._text(value) if isinstance(value, str) else value

    def _of_file(self, path: str, value: Any) -> Any:
        number = hexadecimal(value) if path.endswith("/unique_id") and isinstance(value, str) else None
        return f"{self._ordinal(str(number)):016x}\n" if number else self.without(value)

    def _text(self, text: str) -> str:
        text = _UUID.sub(lambda found: f"{self._ordinal(found[0]):08x}-0000-0000-0000-000000000000", text)
        return _UNIQUE_ID.sub(lambda found: f"{found[1]}{self._ordinal(found[2])}", text)

    def _ordinal(self, serial: str) -> int:
        return self._seen.setdefault(serial.lower(), len(self._seen) + 1)
