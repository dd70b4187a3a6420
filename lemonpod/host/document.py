"""A machine as one JSON document: what a capture wrote, for looking at it elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from lemonpod.contract.location import Path as Place
from lemonpod.contract.location import location, shown
from lemonpod.errors import ConfigError
from lemonpod.host.devices import DeviceNode
from lemonpod.host.tree import MAX_BYTES, Folder, Tree, resolve
from lemonpod.host.user import User

MAX_DOCUMENT: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The tree of a document. `opens` is what the kernel said where the mode of a node says otherwise."""

    machine: str | None
    user: User
    groups: Mapping[str, int]
    files: Mapping[str, str]
    links: Mapping[str, str]
    folders: Mapping[str, tuple[str, ...]]
    nodes: Mapping[str, DeviceNode]
    unreadable: frozenset[str]
    opens: Mapping[str, bool]

    def link(self, path: str) -> str | None:
        return self.links.get(path)

    def read(self, path: str) -> str | None:
        place = resolve(path, self.link)
        text = None if place is None or place in self.unreadable else self.files.get(place)
        return None if text is None else text[:MAX_BYTES].replace("\r\n", "\n")

    def names(self, path: str) -> tuple[str, ...]:
        place = resolve(path, self.link)
        return () if place is None or place in self.unreadable else self.folders.get(place, ())

    def real(self, path: str) -> str | None:
        place = resolve(path, self.link)
        if place is None or not (place in self.folders or place in self.files or place in self.nodes):
            return None
        return place

    def node(self, path: str) -> DeviceNode | None:
        place = resolve(path, self.link)
        return None if place is None else self.nodes.get(place)

    def may_open(self, node: DeviceNode) -> bool:
        return self.opens.get(node.path, node.may_open(self.user))

    def group(self, number: int) -> str:
        return next((name for name, gid in self.groups.items() if gid == number), str(number))


def open_tree(path: Path) -> Tree:
    """The tree at `path`: a folder, or the JSON document of a capture. Raises ConfigError."""
    if path.is_dir():
        return Folder(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_DOCUMENT + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if len(data) > MAX_DOCUMENT:
        raise ConfigError(f"{path}: longer than {MAX_DOCUMENT >> 20} MiB, which no capture is")
    try:
        return document(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: no JSON: {error}") from error
    except ConfigError as error:
        raise ConfigError(
            f"{path}: {error}", hint="--root takes what 'lemonpod host --capture FILE' wrote"
        ) from error


def document(value: object) -> Document:
    """The tree that a parsed document holds; raises ConfigError, which names the field."""
    if not isinstance(value, dict):
        _refuse((), "must be an object", value)
    groups = _map(value, "groups", int, "a number", default={})
    files = _map(value, "files", str, "a text")
    links = _map(value, "links", str, "a text", default={})
    nodes: dict[str, DeviceNode] = {}
    opens: dict[str, bool] = {}
    for index, entry in enumerate(_list(value.get("nodes", []), ("nodes",))):
        node = _node(entry, ("nodes", index), groups)
        nodes[node.path] = node
        if "open" in entry:
            opens[node.path] = _is(entry["open"], bool, ("nodes", index, "open"), "true or false")
    folders = _texts(value, "dirs")
    machine = value.get("machine")
    return Document(
        machine=None if machine is None else _is(machine, str, ("machine",), "a text"),
        user=_user(value.get("user", {}), groups),
        groups=groups,
        files=files,
        links=links,
        folders=_folders([*files, *links, *nodes], folders),
        nodes=nodes,
        unreadable=frozenset(_texts(value, "unreadable")),
        opens=opens,
    )


def _folders(paths: Iterable[str], folders: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Every folder that a path of the document implies, with what is in it."""
    inside: dict[str, set[str]] = {"/": set()}
    for folder in folders:
        inside.setdefault(folder.rstrip("/") or "/", set())
    for path in [*paths, *inside]:
        above, _, name = path.rstrip("/").rpartition("/")
        while name:
            names = inside.setdefault(above or "/", set())
            if name in names:
                break
            names.add(name)
            above, _, name = above.rpartition("/")
    return {folder: tuple(sorted(names)) for folder, names in inside.items()}


def _user(entry: object, groups: Mapping[str, int]) -> User:
    user = _is(entry, dict, ("user",), "an object")
    names = _list(user.get("groups", []), ("user", "groups"))
    return User(
        uid=_is(user.get("uid", 0), int, ("user", "uid"), "a number"),
        gid=_is(user.get("gid", 0), int, ("user", "gid"), "a number"),
        groups=frozenset(_group(name, groups, ("user", "groups", index)) for index, name in enumerate(names)),
    )


def _node(entry: object, place: Place, groups: Mapping[str, int]) -> DeviceNode:
    node = _is(entry, dict, place, "an object")
    mode = node.get("mode")
    try:
        bits = int(_is(mode, str, (*place, "mode"), "an octal text"), 8)
    except ValueError:
        _refuse((*place, "mode"), "must be an octal text, as 0660", mode)
    return DeviceNode(
        path=_is(node.get("path"), str, (*place, "path"), "a text"),
        mode=bits,
        uid=_is(node.get("uid"), int, (*place, "uid"), "a number"),
        gid=_group(node.get("gid"), groups, (*place, "gid")),
    )


def _group(name: object, groups: Mapping[str, int], place: Place) -> int:
    if isinstance(name, int) and not isinstance(name, bool):
        return name
    if not isinstance(name, str) or name not in groups:
        _refuse(place, "must be a number or one of 'groups'", name)
    return groups[name]


def _map(
    value: Mapping[str, Any], name: str, kind: type, what: str, *, default: dict[str, Any] | None = None
) -> dict[str, Any]:
    entries = _is(value.get(name, default), dict, (name,), "an object")
    return {key: _is(entry, kind, (name, key), what) for key, entry in entries.items()}


def _texts(value: Mapping[str, Any], name: str) -> list[str]:
    entries = _list(value.get(name, []), (name,))
    return [_is(entry, str, (name, index), "a text") for index, entry in enumerate(entries)]


def _list(value: object, place: Place) -> list[Any]:
    found: list[Any] = _is(value, list, place, "a list")
    return found


def _is(value: object, kind: type, place: Place, what: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        _refuse(place, f"must be {what}", value)
    return value


def _refuse(place: Place, problem: str, value: object) -> NoReturn:
    where = location(place)
    raise ConfigError(f"{where + ': ' if where else ''}{problem}, not {shown(value)}")
