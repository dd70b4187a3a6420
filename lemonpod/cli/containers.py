"""A container as its spec, as the body for its runtime's API, or as a line to paste."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import typer

from lemonpod.cli.output import print_json
from lemonpod.errors import LaunchError

if TYPE_CHECKING:
    from lemonpod.launch.container import ContainerSpec


class ContainerFormat(StrEnum):
    SPEC = "spec"
    DOCKER = "docker"
    PODMAN = "podman"
    CLI = "cli"


def print_container(spec: ContainerSpec, argv: Sequence[str], format_: ContainerFormat) -> None:
    """Print the ContainerSpec that `argv` asks for. JSON is alone on stdout; a query is told beside it."""
    from lemonpod.drivers.docker_body import docker_create
    from lemonpod.drivers.podman_body import podman_create
    from lemonpod.launch.container import as_json

    match format_:
        case ContainerFormat.SPEC:
            print_json(as_json(spec))
            return
        case ContainerFormat.CLI:
            typer.echo(shlex.join(argv))
            return
    if format_.value != spec.runtime.value:
        raise LaunchError(
            f"a command line of {spec.runtime}; its flags mean other things to {format_}",
            hint=f"--format {spec.runtime} prints what {spec.runtime} is sent",
        )
    query, body = (docker_create if format_ is ContainerFormat.DOCKER else podman_create)(spec)
    print_json(body)
    if query:
        typer.echo(f"query: {urlencode(query)}", err=True)
