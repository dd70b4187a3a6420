"""A command line of podman or docker, taken apart the way that their own parser (spf13/pflag) takes it.

Options end at the first word that is none: the image. What follows is the container's command, whatever it
looks like. An argv is split the same before its `{token}`s are resolved and after: a token may stand in an
option's value and in the image, which are never looked into here, but nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import pairwise
from pathlib import PurePath
from types import MappingProxyType
from typing import Final, NoReturn

from lemonpod.contract.location import shown
from lemonpod.contract.tokens import Token
from lemonpod.errors import ArgvError
from lemonpod.launch.argv.flags import (
    PERSISTENT_FLAGS,
    PROGRAM_FLAGS,
    SUBCOMMAND_FLAGS,
    Flag,
    Flags,
    Subcommand,
    Takes,
)
from lemonpod.launch.container import Runtime

PROGRAMS: Final = MappingProxyType(
    {
        "podman": Runtime.PODMAN,
        "podman-hpc": Runtime.PODMAN,
        "podman-remote": Runtime.PODMAN,
        "docker": Runtime.DOCKER,
        "nerdctl": Runtime.DOCKER,
        "nerdctl.lima": Runtime.DOCKER,
        "nvidia-docker": Runtime.DOCKER,
    }
)
"""The programs that speak a runtime's command line, by name."""

WRAPPERS: Final = frozenset(
    """
    chrt dbus-run-session distrobox-host-exec doas env flatpak-spawn host-spawn ionice nice nohup numactl
    setsid stdbuf sudo systemd-inhibit systemd-run taskset time timeout toolbox
    """.split()  # noqa: SIM905
)
"""Programs that start the one which is named among their arguments."""

_OF_A_WRAPPER: Final = frozenset({"-u", "--user", "-g", "--group"})  # `sudo -g docker` names no program
_SUBCOMMANDS: Final = MappingProxyType({subcommand.value: subcommand for subcommand in Subcommand})
GROUP: Final = "container"  # `podman container run` is `podman run`
_END: Final = "--"
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_USERS_ARGUMENTS: Final = str(Token("custom_args"))  # any number of words, once it is resolved


@dataclass(frozen=True, slots=True)
class Option:
    """One flag as it was given: its long name, and `true` or `false` as the value of one that takes none."""

    name: str
    value: str
    index: int = field(compare=False)
    """Of its word in the argv; where it is written is no part of what it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCommand:
    """A `run` or `create`, split. Two are equal where they ask for the same, however that was written."""

    wrapper: tuple[str, ...]
    """The words that start the program, as `sudo -n`; what they change is not part of this value."""
    program: str
    runtime: Runtime
    program_options: tuple[Option, ...]
    """Of podman or docker as a whole: which engine, which storage."""
    subcommand: Subcommand
    options: tuple[Option, ...]
    image: str
    image_index: int = field(compare=False)
    command: tuple[str, ...]

    @property
    def direct(self) -> bool:
        """Whether podman or docker itself is started: no wrapper, and none that only talks like them."""
        return not self.wrapper and name_of(self.program) == self.runtime

    def value_of(self, flag: str) -> str | None:
        """What a flag is given, the last one counts; None without it."""
        values = [option.value for option in self.options if option.name == flag]
        return values[-1] if values else None

    def is_on(self, flag: str) -> bool:
        """Whether a flag that takes no value is set."""
        return self.value_of(flag) in _TRUE


def split(argv: Sequence[str]) -> ContainerCommand | None:
    """What `argv` has podman or docker run or create, or None where it does neither.

    Raises ArgvError for what they refuse, and where the image cannot be told before tokens are resolved.
    """
    words = tuple(argv)
    return next(filter(None, (_split_at(words, start) for start in _programs(words))), None)


def join(command: ContainerCommand) -> tuple[str, ...]:
    """An argv that splits into an equal command: one word an option, by its long name."""
    end = (_END,) if command.image.startswith("-") and command.image != "-" else ()
    return (
        *command.wrapper,
        command.program,
        *(f"{option.name}={option.value}" for option in command.program_options),
        command.subcommand,
        *(f"{option.name}={option.value}" for option in command.options),
        *end,
        command.image,
        *command.command,
    )


def _programs(argv: Sequence[str]) -> Iterator[int]:
    """Where the program may be: first, or anywhere behind a wrapper, whose own options are not understood."""
    if argv and name_of(argv[0]) in PROGRAMS:
        yield 0
    elif argv and name_of(argv[0]) in WRAPPERS:
        yield from (
            index
            for index, (before, word) in enumerate(pairwise(argv), start=1)
            if name_of(word) in PROGRAMS and before not in _OF_A_WRAPPER
        )


def name_of(program: str) -> str:
    return PurePath(program).name.removesuffix(".exe")


def _split_at(argv: tuple[str, ...], start: int) -> ContainerCommand | None:
    runtime = PROGRAMS[name_of(argv[start])]
    before, position = read_options(argv, start + 1, PROGRAM_FLAGS[runtime], runtime)
    if argv[position : position + 1] == (GROUP,):
        group = f"{runtime} {GROUP}"
        more, position = read_options(argv, position + 1, PERSISTENT_FLAGS[runtime], group)
        before += more
    if position == len(argv):
        return None
    if "{" in argv[position]:
        _refuse(f"{runtime}: a token where the command is to be", position)
    subcommand = _SUBCOMMANDS.get(argv[position])
    if subcommand is None:
        return None
    where = f"{runtime} {subcommand}"
    after, position = read_options(argv, position + 1, SUBCOMMAND_FLAGS[runtime, subcommand], where)
    if position == len(argv):
        _refuse(f"{where}: no image", position - 1, "an option may have taken the image for its value")
    if not argv[position]:
        _refuse(f"{where}: the name of the image is empty", position)
    given = [*before, *after]
    return ContainerCommand(
        wrapper=argv[:start],
        program=argv[start],
        runtime=runtime,
        program_options=tuple(option for flag, option in given if flag.of_program),
        subcommand=subcommand,
        options=tuple(option for flag, option in given if not flag.of_program),
        image=argv[position],
        image_index=position,
        command=argv[position + 1 :],
    )


def read_options(
    argv: tuple[str, ...], position: int, known: Flags, where: str
) -> tuple[list[tuple[Flag, Option]], int]:
    """The options from `position` on, and the position of the first word that is none."""
    given: list[tuple[Flag, Option]] = []
    while position < len(argv) and argv[position].startswith("-") and argv[position] != "-":
        index, word = position, argv[position]
        position += 1
        if word == _END:
            break
        for flag, value in _flags(word, index, known, where):
            if value is None and flag.takes is Takes.NOTHING:
                value = "true"
            elif value is None:
                if position == len(argv):
                    _refuse(f"{where}: '{flag.name}' needs a value", index)
                _check_single(argv, position, where)
                value = argv[position]  # even one that looks like a flag
                position += 1
            elif flag.takes is Takes.NOTHING and value not in _TRUE | _FALSE and "{" not in value:
                _refuse(f"{where}: '{flag.name}' is true or false, not '{shown(value)}'", index)
            given.append((flag, Option(flag.name, value, index)))
    _check_single(argv, position, where)
    return given, position


def _flags(word: str, index: int, known: Flags, where: str) -> Iterator[tuple[Flag, str | None]]:
    """The flags in one word, each with the value that is in the same word."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        if name[2:3] in {"", "-"}:
            _refuse(f"{where}: '{shown(word)}' is no flag", index)
        yield _known(name, word, index, known, where), value if equals else None
        return
    rest = word[1:]
    while rest:
        name, rest = f"-{rest[0]}", rest[1:]
        flag = _known(name, word, index, known, where)
        if rest.startswith("=") and rest != "=":
            yield flag, rest[1:]
            return
        if rest and flag.takes is not Takes.NOTHING:
            yield flag, rest
            return
        yield flag, None


def _known(name: str, word: str, index: int, known: Flags, where: str) -> Flag:
    if flag := known.get(name):
        return flag
    inside = "" if word.startswith(name) else f" in '{shown(word)}'"
    _refuse(f"{where}: unknown flag '{shown(name)}'{inside}", index, _hint(name, word, known))


def _hint(name: str, word: str, known: Flags) -> str | None:
    if "{" in name:
        return "a token cannot stand in the name of a flag"
    if f"-{word}" in known:
        return f"a long flag begins with two dashes, '-{word}'"
    places = [" ".join(place) for place, flags in SUBCOMMAND_FLAGS.items() if name in flags]
    places += [f"{runtime} before its command" for runtime, flags in PROGRAM_FLAGS.items() if name in flags]
    if places:
        return f"known to {', '.join(places)}"
    close = get_close_matches(name, known, n=1, cutoff=0.8)
    return f"did you mean '{close[0]}'?" if close else None


def _check_single(argv: tuple[str, ...], position: int, where: str) -> None:
    """Refuse a word that stands for any number of words where one of them could be the image."""
    if argv[position : position + 1] == (_USERS_ARGUMENTS,):
        hint = "put it behind the image"
        _refuse(f"{where}: with '{_USERS_ARGUMENTS}' here nobody can tell the image", position, hint)


def _refuse(reason: str, index: int, hint: str | None = None) -> NoReturn:
    raise ArgvError(reason, index=index, hint=hint)
