"""From a command line to a spec: what is ours to do, what is refused where, and what only the CLI can do."""

from __future__ import annotations

from itertools import product

import pytest

from lemonpod.drivers.docker_body import docker_create
from lemonpod.drivers.podman_body import podman_create
from lemonpod.errors import ArgvError, OnlyByCliError
from lemonpod.launch.argv.flags import PROGRAM_FLAGS, SUBCOMMAND_FLAGS, Subcommand
from lemonpod.launch.argv.meanings import MEANINGS
from lemonpod.launch.container import PullPolicy, Restart, Runtime, as_json
from tests.unit.launch.argv.corpus import spec_of


@pytest.mark.parametrize("runtime", Runtime)
def test_every_flag_has_a_meaning_and_no_other_word_has(runtime: Runtime) -> None:
    flags = {
        flag.name for subcommand in Subcommand for flag in SUBCOMMAND_FLAGS[runtime, subcommand].values()
    }
    flags |= {flag.name for flag in PROGRAM_FLAGS[runtime].values()}

    assert flags == MEANINGS[runtime].keys()


@pytest.mark.parametrize(("program", "policy"), [*product(Runtime, ("always", "never", "missing"))])
def test_removal_and_pull_are_ours_to_do(program: Runtime, policy: str) -> None:
    create = {Runtime.DOCKER: docker_create, Runtime.PODMAN: podman_create}[program]
    spec = spec_of(program, "run", "--rm", "--pull", policy, "img")

    assert spec.remove
    assert spec.pull is PullPolicy(policy)
    assert create(spec) == create(spec_of(program, "run", "img"))


def test_the_query_of_docker_has_name_and_platform() -> None:
    query, _ = docker_create(spec_of("docker", "run", "--name", "n", "--platform", "linux/arm64", "img"))

    assert query == {"name": "n", "platform": "linux/arm64"}


def test_the_same_asked_otherwise_is_the_same_spec() -> None:
    assert spec_of("docker", "run", "-itp80:80", "--rm=true", "img") == spec_of(
        "docker", "container", "run", "--publish=80:80", "--tty", "--rm", "-i", "img"
    )


def test_shared_memory_of_another_namespace_has_no_size() -> None:
    _, body = podman_create(spec_of("podman", "run", "--ipc=host", "--shm-size=1g", "img"))

    assert "shm_size" not in body


def test_podman_restarts_after_a_failure_what_it_is_to_remove() -> None:
    spec = spec_of("podman", "run", "--rm", "--restart", "on-failure", "img")

    assert spec.remove
    assert spec.restart == Restart("on-failure")


def test_how_a_mount_spreads_is_one_word_of_podmans() -> None:
    _, body = podman_create(spec_of("podman", "run", "--mount", "type=bind,src=/a,dst=/x,rslave,ro", "img"))

    assert body["mounts"] == [
        {"destination": "/x", "type": "bind", "source": "/a", "options": ["rslave", "ro"]}
    ]


def test_docker_reads_the_type_of_a_mount_in_any_case() -> None:
    assert spec_of("docker", "run", "--mount", "Type=BIND,SRC=/a,dst=/x", "img") == spec_of(
        "docker", "run", "--mount", "type=bind,src=/a,dst=/x", "img"
    )


@pytest.mark.parametrize(
    ("gpus", "names"),
    [
        ("all", ["all"]),
        ("2", ["0", "1"]),
        ("device=2", ["2"]),
        ('"device=0,1"', ["0", "1"]),
        ("0,1", ["0", "1"]),
        ("0", []),
    ],
)
def test_podman_has_gpus_by_their_cdi_names(gpus: str, names: list[str]) -> None:
    _, body = podman_create(spec_of("podman", "run", "--gpus", gpus, "img"))

    assert [device["path"] for device in body.get("devices", ())] == [
        f"nvidia.com/gpu={one}" for one in names
    ]


def test_what_a_spec_was_not_asked_for_is_not_shown() -> None:
    spec = spec_of("podman", "run", "--network", "lan", "-p", "80", "img")

    assert as_json(spec) == {
        "runtime": "podman",
        "image": "img",
        "network_mode": {"mode": "bridge", "value": None},
        "networks": [{"name": "lan", "aliases": [], "ips": [], "mac": None, "interface": None}],
        "ports": [
            {
                "host_ip": "",
                "host_port": None,
                "host_last": None,
                "container_port": 80,
                "length": 1,
                "protocol": "",
            }
        ],
    }


@pytest.mark.parametrize(
    ("argv", "index", "reason"),
    [
        ("docker run -v a:/x --shm-size 16Gi img", 4, "docker run: '--shm-size' takes a size as 512m or 16g"),
        (
            "docker run --env-file missing img",
            2,
            "'--env-file' names a file that cannot be read: 'missing', No",
        ),
        ("docker run --rm --restart always img", 2, "'--rm' and '--restart' exclude each other"),
        ("docker run Img", 2, "'Img' names no image: 'Img' has uppercase letters"),
        ("docker run --help img", 2, "'--help' prints help and starts nothing"),
        ("podman run --group-add keep-groups --group-add a img", 4, "'--group-add' takes no other group"),
        ("podman run --network host --ip 10.0.0.2 img", 4, "'--ip' does not go with this '--network'"),
        ("podman run --rm --restart on-failure:3 img", 2, "'--rm' and '--restart' exclude each other"),
        ("docker run --rm --restart on-failure img", 2, "'--rm' and '--restart' exclude each other"),
        ("podman run --mount type=bind,SRC=/a,dst=/x img", 2, "'--mount' has no option 'SRC'"),
        ("podman run --mount type=tmpfs,src=/a,dst=/x img", 2, "'--mount' takes no source for a tmpfs"),
        ("podman run -v /a:/x:consistent img", 2, "'--volume' has no option 'consistent'"),
    ],
)
def test_a_refusal_names_flag_position_and_reason(argv: str, index: int, reason: str) -> None:
    with pytest.raises(ArgvError) as raised:
        spec_of(*argv.split())

    assert raised.value.index == index
    assert reason in raised.value.reason
    assert not isinstance(raised.value, OnlyByCliError)


@pytest.mark.parametrize(
    ("argv", "index", "flag"),
    [
        ("docker run --cidfile x img", 2, "--cidfile"),
        ("docker run --network a --network b img", 4, "--network"),
        ("docker run --mount type=image,src=a,dst=/x img", 2, "--mount"),
        ("docker run --mount type=bind,src=/a,dst=/x,bind-recursive=disabled img", 2, "--mount"),
        ("podman --root /r run img", 1, "--root"),
        ("podman run --runtime crun img", 2, "--runtime"),
        ("podman run --health-interval 5s img", 2, "--health-interval"),
        ("podman run --userns auto:size=5 img", 2, "--userns"),
        ("podman run --ulimit host img", 2, "--ulimit"),
        ("podman run --ulimit NOFILE=10 img", 2, "--ulimit"),
        ("podman run --dns none img", 2, "--dns"),
        ("podman run --mount type=volume,src=a,dst=/x,volume-subpath=b img", 2, "--mount"),
        ("podman run --mount type=volume,src=a,dst=/x,volume-opt=o=uid=1 img", 2, "--mount"),
        ("podman run --mount type=volume,src=a,dst=/x,relabel=shared img", 2, "--mount"),
        ("podman run --mount type=bind,src=/a,dst=/x,no-dereference img", 2, "--mount"),
        ("docker run --kernel-memory 1g img", 2, "--kernel-memory"),
        ("podman run oci:dir", 2, ""),
    ],
)
def test_what_only_the_program_can_do(argv: str, index: int, flag: str) -> None:
    with pytest.raises(OnlyByCliError) as raised:
        spec_of(*argv.split())

    assert raised.value.index == index
    assert flag in raised.value.reason
