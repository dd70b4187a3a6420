"""Single flags: what podman 4.3.1 and docker 28.2.2 sent for them to a recording socket, or why not.

A line of the data has what differs from a create without options. Recorded as the caller of `corpus.py`, with
its files.
"""

from __future__ import annotations

import shlex
from typing import Any, Final

import pytest

from lemonpod.drivers.docker_body import docker_create
from lemonpod.drivers.podman_body import podman_create
from lemonpod.errors import ArgvError, OnlyByCliError
from tests.unit.launch.argv.corpus import lines, spec_of
from tests.unit.launch.argv.forms import docker_form, podman_form

REFUSED_EARLIER: Final = frozenset(
    """
    podman -v /:x
    podman -v ''
    podman -v x
    podman --systemd wat
    podman --sdnotify wat
    podman --cgroups wat
    podman --device /dev/a:/dev/b:q
    podman --device ''
    docker -v a:b:c:d
    docker -v /a:/x -v /b:/x
    docker --mount type=bind,dst=/x
    docker --mount type=wat,dst=/x
    docker --ipc wat
    docker --network container:
    docker --security-opt no-new-privileges=wat
    docker --security-opt wat=1
    docker --restart always:3
    docker --restart wat
    docker --mount type=bind,src=a,dst=/x
    docker --mount type=bind,src=/a,dst=/x,bind-propagation=wat
    docker --mount type=bind,src=/a,dst=/x --tmpfs /x
    docker --cpus -1
    """.strip().splitlines()
)
"""What the program hands on and the engine refuses; we say so before anything is pulled."""

DIFFERENT: Final = {
    "podman --platform linux": "the program tells only the pull; the create has words for it as well",
    "podman --mount type=bind,src=a,dst=/x,ro": "from the caller's folder, not the service's",
    "podman --network pasta": "podman 4.3 does not know pasta, and takes it for the name of a network",
    "podman --group-add keep-groups": "the program refuses it of a socket; its engine would not",
    "podman --name n --replace": "the program looked for the old container first, which the recorder had not",
}
BY_CLI: Final = {
    "podman --entrypoint '[\"sh\",1]'": "podman 4 makes three words of it",
    "podman --network lan:wat=1": "the program refuses it, as of its version",
    "podman --health-cmd CMD": "read otherwise by other versions",
    "podman --health-cmd 'CMD x'": "read otherwise by other versions",
    "podman --log-driver passthrough": "the program refuses it of a socket",
    "podman --memory 8g --memory-swap -1": "the API takes it for twice the memory, podman alone for no limit",
    "podman --mount type=volume,source=v,destination=/x,U,z": "podman 5 takes it",
    "podman --ulimit RLIMIT_NOFILE=10:20": "podman 5 takes it",
    "podman --device nvidia.com/gpu=0,nvidia.com/gpu=1": "podman 5 does not cut at commas",
    "podman --annotation a=b,c=d": "podman 5 does not cut at commas",
    "docker --network name=lan,wat=1": "the program refuses it, as of its version",
    "docker --platform linux": "the program adds its own architecture",
    "docker --cpus 1/2": "a fraction",
}
EARLIER: Final = {" ".join(line.split()) for line in REFUSED_EARLIER}
ROWS: Final = [
    pytest.param(program, row, id=f"{program} {shlex.join(row['options'])}")
    for program in ("podman", "docker")
    for row in lines(f"{program}_flags.jsonl")
]


@pytest.mark.parametrize(("program", "row"), ROWS)
def test_a_flag_says_what_it_says_to_the_program(
    program: str, row: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    name = f"{program} {shlex.join(row['options'])}"
    found = outcome(program, row)

    if name in BY_CLI:
        assert found == "by CLI"
    elif name in EARLIER:
        assert found == "refused"
        assert "error" not in row
    elif name in DIFFERENT:
        assert found == "different"
    else:
        assert found == ("refused" if "error" in row else "same")


def outcome(program: str, row: dict[str, Any]) -> str:
    try:
        spec = spec_of(program, "create", *row["options"], "img")
    except OnlyByCliError:
        return "by CLI"
    except ArgvError:
        return "refused"
    if "error" in row:
        return "different"
    if program == "podman":
        _, body = podman_create(spec)
        return "same" if podman_form(body) == podman_form({**row["libpod"], "image": "img"}) else "different"
    query, body = docker_create(spec)
    sent = "&".join(f"{key}={value.replace('/', '%2F')}" for key, value in query.items())
    same = docker_form(body) == docker_form({**row["docker"], "Image": "img"}) and sent == row["query"]
    return "same" if same else "different"


def test_every_exception_is_recorded() -> None:
    recorded = {str(row.id) for row in ROWS}

    assert {*EARLIER, *DIFFERENT, *BY_CLI} <= recorded
