"""A stop command that podman or docker would carry out, as the call of their API that it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lemonpod.errors import ArgvError
from lemonpod.launch.argv.connection import Connection, connection
from lemonpod.launch.argv.flags import PERSISTENT_FLAGS, PROGRAM_FLAGS, STOP_FLAGS, Flags, StopVerb
from lemonpod.launch.argv.split import GROUP, Option, name_of, read_options
from lemonpod.launch.argv.values import TRUE
from lemonpod.launch.container import Runtime

_VERBS: Final = MappingProxyType({verb.value: verb for verb in StopVerb})
_END: Final = "--"
_WHOLE: Final = re.compile(r"-?[0-9]{1,9}")
_SIGNAL: Final = re.compile(r"[A-Za-z0-9+]{1,16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStop:
    """What ends containers, said to a runtime's API. None leaves it to the container."""

    verb: StopVerb
    containers: tuple[str, ...]
    """Names or ids."""
    timeout: int | None = None
    """Seconds from the stop signal to KILL; below zero it never comes."""
    signal: str | None = None
    force: bool = False
    volumes: bool = False
    ignore: bool = False
    """A container that is not there is no error."""


def container_stop(
    argv: Sequence[str], runtime: Runtime, asked: Connection, env: Mapping[str, str], own: Mapping[str, str]
) -> ContainerStop | None:
    """The call that `argv` stands for, or None where it is none, or not one of the engine that was `asked`.

    A stop command that cannot be understood is no error: it is a command, and can be run.
    """
    try:
        return _parse(tuple(argv), runtime, asked, env, own)
    except ArgvError:
        return None


def _parse(
    argv: tuple[str, ...], runtime: Runtime, asked: Connection, env: Mapping[str, str], own: Mapping[str, str]
) -> ContainerStop | None:
    if name_of(argv[0]) != runtime:
        return None
    given, position = read_options(argv, 1, PROGRAM_FLAGS[runtime], runtime)
    if argv[position : position + 1] == (GROUP,):
        more, position = read_options(argv, position + 1, PERSISTENT_FLAGS[runtime], f"{runtime} {GROUP}")
        given += more
    verb = _VERBS.get(argv[position]) if position < len(argv) else None
    of_program = tuple(option for _, option in given)
    if verb is None or connection(runtime, of_program, env, own) != asked:
        return None
    where = f"{runtime} {verb}"
    containers: list[str] = []
    parts: dict[str, object] = {}
    for word in _words(argv, position + 1, STOP_FLAGS[runtime, verb], where):
        if isinstance(word, str):
            containers.append(word)
        elif not _read(word, parts):
            return None
    if not containers:
        return None
    return ContainerStop(verb=verb, containers=tuple(containers), **parts)  # type: ignore[arg-type]


def _words(argv: tuple[str, ...], position: int, known: Flags, where: str) -> Iterator[Option | str]:
    """Options and names, which may stand in any order."""
    while position < len(argv):
        given, after = read_options(argv, position, known, where)
        yield from (option for _, option in given)
        if after > position and argv[after - 1] == _END:
            yield from argv[after:]
            return
        yield from argv[after : after + 1]
        position = after + 1


def _read(option: Option, parts: dict[str, object]) -> bool:
    """Note what an option says; False where the API has no word for it."""
    match option.name:
        case "--time" if _WHOLE.fullmatch(option.value):
            parts["timeout"] = int(option.value)
        case "--signal" if _SIGNAL.fullmatch(option.value):
            parts["signal"] = option.value
        case "--force" | "--volumes" | "--ignore":
            parts[option.name.removeprefix("--")] = option.value in TRUE
        case _:
            return option.value == "false"
    return True
