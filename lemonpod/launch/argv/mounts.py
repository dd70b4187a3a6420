"""What is mounted: `--volume`, `--mount` and `--tmpfs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lemonpod.contract.location import shown
from lemonpod.launch.argv.values import (
    Context,
    OnlyByCli,
    Reader,
    Refused,
    fields,
    plain,
    require,
    size,
    switch,
    verbatim,
)
from lemonpod.launch.container import Mount, Runtime, Volume

_CONSISTENCY: Final = frozenset({"cached", "delegated"})  # which podman drops; docker hands all on
_PROPAGATION: Final = frozenset({"shared", "slave", "private", "rshared", "rslave", "rprivate"})
_UNBINDABLE: Final = frozenset({"unbindable", "runbindable"})
_PODMAN_OPTIONS: Final = (
    _PROPAGATION
    | _UNBINDABLE
    | frozenset("ro rw z Z U O idmap copy nocopy dev nodev exec noexec suid nosuid bind rbind".split())  # noqa: SIM905
)
_PODMAN_OPTIONS_WITH_VALUE: Final = ("upperdir=", "workdir=", "idmap=")
_EXCLUSIVE: Final = (frozenset({"ro", "rw"}), frozenset({"z", "Z", "O"}))
_SOURCE: Final = frozenset({"source", "src"})
_TARGET: Final = frozenset({"target", "dst", "destination"})
_READ_ONLY: Final = frozenset({"readonly", "ro"})
_ELSEWHERE: Final = frozenset({"artifact", "glob", "devpts", "ramfs", "npipe", "cluster", "image"})
"""Types of mount that only some versions know, or that have no case that was compared."""
_OTHER_OPTIONS: Final = frozenset(
    """
    bind-recursive image-subpath subpath volume-subpath volume-opt idmap consistency tmpcopyup glob title
    digest name dev exec suid no-dereference
    """.split()  # noqa: SIM905
)
"""Options of which the same is true."""
_LABELS: Final = frozenset({"z", "Z", "relabel"})
"""podman 5 takes them of every type of mount, podman 4 of binds."""


@dataclass(frozen=True, slots=True)
class _Grammar:
    """The options of a type of mount: what they are called in the spec, and how their values are read."""

    words: Mapping[str, str]
    values: Mapping[str, tuple[str, Reader]]


def _octal(text: str) -> int:
    if not text or set(text) - set("01234567") or len(text) > 6:
        raise Refused(f"takes an octal mode as 1777, not '{shown(text)}'")
    return int(text, 8)


def _propagation(text: str) -> str:
    require(text, _PROPAGATION, "how mounts spread")
    return text


def _relabel(text: str) -> str:
    require(text, {"shared", "private"}, "relabel")
    return "z" if text == "shared" else "Z"


_DOCKER: Final = MappingProxyType(
    {
        "bind": _Grammar(
            {"bind-nonrecursive": "non-recursive"},
            {
                "bind-propagation": ("propagation", plain(_propagation)),
                "consistency": ("consistency", plain(verbatim)),
            },
        ),
        "volume": _Grammar(
            {"volume-nocopy": "no-copy"},
            {
                "volume-driver": ("driver", plain(verbatim)),
                "volume-label": ("label", plain(verbatim)),
                "volume-opt": ("option", plain(verbatim)),
                "volume-subpath": ("subpath", plain(verbatim)),
                "consistency": ("consistency", plain(verbatim)),
            },
        ),
        "tmpfs": _Grammar({}, {"tmpfs-size": ("size", size), "tmpfs-mode": ("mode", plain(_octal))}),
    }
)
_COMMON: Final = MappingProxyType({word: word for word in ("rw", "U", "z", "Z", "nodev", "noexec", "nosuid")})
_PODMAN: Final = MappingProxyType(
    {
        "bind": _Grammar(
            MappingProxyType(
                {**_COMMON, "chown": "U", "bind-nonrecursive": "bind"}
                | {word: word for word in _PROPAGATION | _UNBINDABLE}
            ),
            {"bind-propagation": ("", plain(_propagation)), "relabel": ("", plain(_relabel))},
        ),
        "volume": _Grammar({word: word for word in _COMMON if word not in {"z", "Z"}} | {"chown": "U"}, {}),
        "tmpfs": _Grammar(
            MappingProxyType({**_COMMON, "chown": "U", "notmpcopyup": "notmpcopyup"}),
            {"tmpfs-size": ("size", plain(verbatim)), "tmpfs-mode": ("mode", plain(verbatim))},
        ),
        "image": _Grammar({"rw": "rw", "readwrite": "rw"}, {}),
    }
)


def volume(text: str, context: Context) -> Volume:
    """Of `--volume`: `[SOURCE:]TARGET[:OPTIONS]`."""
    parts = text.split(":")
    if len(parts) > 3 or not all(parts[:2]):
        raise Refused(f"takes [SOURCE:]TARGET[:OPTIONS], not '{shown(text)}'")
    if len(parts) == 1:
        return Volume(source=None, target=_target(text, context))
    options = tuple(parts[2].split(",")) if len(parts) == 3 else ()
    if context.runtime is Runtime.PODMAN:
        options = _podman_options(options, parts[0])
    elif "" in parts:
        raise Refused(f"has an empty part: '{shown(text)}'")
    return Volume(source=_source(parts[0], context), target=_target(parts[1], context), options=options)


def mount(text: str, context: Context) -> Mount:
    """Of `--mount`: `type=KIND,source=…,target=…,…`."""
    docker = context.runtime is Runtime.DOCKER
    given = [_key_and_value(field, any_case=docker) for field in fields(text)]
    kind = dict(given).get("type") or ("volume" if docker else "")
    kind = kind.lower() if docker else kind
    grammar = (_DOCKER if docker else _PODMAN).get(kind)
    if grammar is None:
        known = ", ".join(_DOCKER if docker else _PODMAN)
        if kind in _ELSEWHERE:
            raise OnlyByCli(f"mounts of type '{kind}' are not of every version")
        raise Refused(f"takes type={known.replace(', ', '|')}, not '{shown(kind or '')}'")
    source = target = ""
    options: list[str] = []
    for key, value in given:
        if key in _SOURCE:
            source = value or ""
        elif key in _TARGET:
            target = value or ""
        elif key != "type":
            options += _mount_option(key, value, grammar, context)
    if not target:
        raise Refused(f"names no target: '{shown(text)}'")
    if kind == "tmpfs" and source and not docker:
        raise Refused(f"takes no source for a tmpfs: '{shown(text)}'")
    if kind == "bind":
        source = _bind_source(source or ("" if docker else target), context)
    return Mount(kind=kind, source=source, target=_target(target, context), options=tuple(options))


def tmpfs(text: str, context: Context) -> tuple[str, str]:
    """Of `--tmpfs`: `TARGET[:OPTIONS]`."""
    target, _, options = text.partition(":")
    return _target(target, context), options


def _key_and_value(field: str, *, any_case: bool) -> tuple[str, str | None]:
    key, equals, value = field.partition("=")
    return key.lower() if any_case else key, value if equals else None


def _mount_option(key: str, value: str | None, grammar: _Grammar, context: Context) -> list[str]:
    if key in _READ_ONLY:
        word = "ro"
    elif key in grammar.words:
        word = grammar.words[key]
    elif key in grammar.values:
        name, read = grammar.values[key]
        said = read(value or "", context)
        return [f"{name}={said}" if name else str(said)]
    elif key in _OTHER_OPTIONS or (_is_podman(context) and key in _LABELS):
        raise OnlyByCli(f"the option '{key}' of a mount is not of every version")
    else:
        raise Refused(f"has no option '{shown(key)}' for this type of mount")
    if value is None or switch(value):
        return [word]
    return ["ro"] if word == "rw" else []


def _is_podman(context: Context) -> bool:
    return context.runtime is Runtime.PODMAN


def _podman_options(options: tuple[str, ...], source: str) -> tuple[str, ...]:
    for option in options:
        if option not in _PODMAN_OPTIONS | _CONSISTENCY and not option.startswith(_PODMAN_OPTIONS_WITH_VALUE):
            raise Refused(f"has no option '{shown(option)}' for '{shown(source)}'")
    for group in _EXCLUSIVE:
        if sum(option in group for option in options) > 1:
            raise Refused(f"takes one of {', '.join(sorted(group))} for '{shown(source)}'")
    return tuple(option for option in options if option not in _CONSISTENCY)


def _source(source: str, context: Context) -> str:
    """A path where it begins like one, otherwise the name of a volume, which the engine checks."""
    is_path = source.startswith(("/", "."))
    return context.absolute(source) if is_path else source


def _bind_source(source: str, context: Context) -> str:
    if not source:
        raise Refused("names no source to bind")
    if not _is_podman(context) and not source.startswith(("/", ".")):
        raise Refused(f"takes a path that begins with '/' or '.' to bind, not '{shown(source)}'")
    # podman's own program leaves a relative source to the service, whose folder is nobody's.
    return context.absolute(source)


def _target(target: str, context: Context) -> str:
    if not target.startswith("/") and _is_podman(context):
        raise Refused(f"takes an absolute path in the container, not '{shown(target)}'")
    return target
