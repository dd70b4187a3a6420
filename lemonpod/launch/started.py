"""How a command is started: as a process, or, where it asks for a container, over the API of its runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Final, TypeAlias

from lemonpod.contract.tokens import Template
from lemonpod.errors import ArgvError, OnlyByCliError
from lemonpod.launch.argv.connection import connection
from lemonpod.launch.argv.run import check_sayable, container_spec
from lemonpod.launch.argv.split import PROGRAMS, ContainerCommand, split
from lemonpod.launch.argv.stop import ContainerStop, container_stop
from lemonpod.launch.argv.values import Caller
from lemonpod.launch.container import Runtime
from lemonpod.launch.plan import ContainerLaunch, ProcessSpec, StopCommand

_CHOSEN: Final = "'container_driver' is 'cli'"
_GRACE: Final = ("-t", "5")  # both take ten seconds by themselves, and a server that ends has no more
_NOT_RUN: Final = "it is no 'run' or 'create'"

Spec: TypeAlias = ProcessSpec | ContainerLaunch


class ContainerDriving(StrEnum):
    """Who carries out a command line that asks podman or docker for a container."""

    AUTO = "auto"
    """Their API, and the command line itself where the API cannot be told all of it."""
    SDK = "sdk"
    """Their API, or nobody."""
    CLI = "cli"


def started_as(
    argv: tuple[str, ...],
    cwd: Path | None,
    caller: Caller,
    own: Mapping[str, str],
    driving: ContainerDriving,
) -> tuple[Spec, str | None]:
    """What to start, and, where it is a container by its command line, why so.

    `own` is the part of the caller's environment that is set for this command alone.

    Raises ArgvError for what podman or docker would refuse, OnlyByCliError where `driving` is SDK.
    """
    process = ProcessSpec(argv=argv, cwd=cwd)
    if driving is ContainerDriving.CLI:
        return process, _CHOSEN if _hands_over(argv) else None
    try:
        command = split(argv)
        if command is None:
            return process, _NOT_RUN if _hands_over(argv) else None
        return _container(command, argv, cwd, caller, own), None
    except OnlyByCliError as error:
        if driving is ContainerDriving.SDK:
            error.hint = "with 'container_driver' at 'auto' the command line itself is run"
            raise
        return process, error.message
    except ArgvError as error:
        error.hint = error.hint or "with 'container_driver' at 'cli' it is run as it stands"
        raise


def known_only_by_cli(argv: Sequence[str], driving: ContainerDriving) -> str | None:
    """Why a container is run by its command line, as far as that shows before tokens are resolved."""
    if driving is ContainerDriving.CLI:
        return _CHOSEN if _hands_over(argv) else None
    try:
        command = split(argv)
        if command is None:
            return _NOT_RUN if _hands_over(argv) else None
        _check_direct(command)
        connection(command.runtime, command.program_options, {}, {})
        check_sayable(command)
    except OnlyByCliError as error:
        return error.message
    except ArgvError:  # a launch will say what is wrong
        return None
    return None


def stopped_by(
    stop: Sequence[Template], spec: Spec, env: Mapping[str, str], own: Mapping[str, str]
) -> StopCommand | ContainerStop:
    """A stop command as the call of the API that the engine was started by, if it stands for one."""
    if isinstance(spec, ContainerLaunch) and not any(template.tokens for template in stop):
        words = [str(template) for template in stop]
        if call := container_stop(words, spec.container.runtime, spec.connection, env, own):
            return call
    return StopCommand(argv=tuple(stop))


def implied_stop(spec: Spec) -> StopCommand | None:
    """What ends a container that is run by its command line, where that names it.

    It outlives the program that was started, and need not heed a signal that the program hands on.
    """
    if isinstance(spec, ContainerLaunch):
        return None
    try:
        command = split(spec.argv)
    except ArgvError:  # only the program knows what it is
        return None
    if command is None or not (name := command.value_of("--name")):
        return None
    words = (
        *(*command.wrapper, command.program),
        *(f"{option.name}={option.value}" for option in command.program_options),
        *_ending(command),
        name,
    )
    return StopCommand(argv=tuple(Template((word,)) for word in words))


def _ending(command: ContainerCommand) -> tuple[str, ...]:
    """Docker kills at once what it is to remove, and takes no grace for it."""
    grace = _GRACE if command.value_of("--stop-timeout") is None else ()
    if command.is_on("--rm"):
        return ("stop", *grace)
    return ("rm", "--force", *(grace if command.runtime is Runtime.PODMAN else ()))


def _container(
    command: ContainerCommand,
    argv: tuple[str, ...],
    cwd: Path | None,
    caller: Caller,
    own: Mapping[str, str],
) -> ContainerLaunch:
    _check_direct(command)
    return ContainerLaunch(
        argv=argv,
        cwd=cwd,
        program=command.program,
        connection=connection(command.runtime, command.program_options, caller.env, own),
        container=container_spec(command, caller),
    )


def _check_direct(command: ContainerCommand) -> None:
    if not command.direct:
        program = PurePath(command.wrapper[0] if command.wrapper else command.program).name
        raise OnlyByCliError(f"'{program}' has no API of {command.runtime} that could be asked", index=0)


def _hands_over(argv: Sequence[str]) -> bool:
    """Whether a container runtime runs the engine: none of its sockets is then in our process tree."""
    if PurePath(argv[0]).name in PROGRAMS:
        return True
    try:
        return split(argv) is not None
    except ArgvError:  # it is one, though not one that runs
        return True
