"""Command lines, split as podman and docker split them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lemonpod.errors import ArgvError
from lemonpod.launch.argv.flags import Subcommand
from lemonpod.launch.argv.split import ContainerCommand, Option, join, split
from lemonpod.launch.container import Runtime

CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "data/argv/corpus.jsonl").read_text("utf-8").splitlines()
]
# What the real program refuses, too.
REFUSED = {"podmanhpc-gpu": "unknown flag '--gpu'"}
# The image that the engine's API was asked for when the real programs were given these lines.
IMAGES = (Path(__file__).parents[3] / "data/argv/images.txt").read_text("utf-8").splitlines()


def command(*argv: str) -> ContainerCommand:
    found = split(argv)
    assert found is not None
    assert split(join(found)) == found
    return found


def options(*argv: str) -> list[tuple[str, str]]:
    """The options of `docker run … IMAGE`."""
    found = command("docker", "run", *argv, "IMAGE")
    assert (found.image, found.command) == ("IMAGE", ())
    return [(option.name, option.value) for option in found.options]


def refusal(*argv: str) -> ArgvError:
    with pytest.raises(ArgvError) as refused:
        split(argv)
    return refused.value


def test_every_line_of_the_corpus_has_its_image() -> None:
    found = {}
    for line in CORPUS:
        if line["id"] in REFUSED:
            assert REFUSED[line["id"]] in refusal(*line["argv"]).message
        else:
            found[line["id"]] = command(*line["argv"])

    assert [f"{id_} {one.image}" for id_, one in found.items()] == IMAGES
    for line in CORPUS:
        if one := found.get(line["id"]):
            assert line["argv"][one.image_index :] == [one.image, *one.command]


def test_a_command_is_split_into_everything_that_it_says() -> None:
    argv = (
        "/usr/bin/podman", "--log-level=debug", "container", "run", "--rm", "-e", "A=1", "--runtime", "crun",
        "img:1", "serve", "--port", "80",
    )  # fmt: skip

    assert split(argv) == ContainerCommand(
        wrapper=(),
        program="/usr/bin/podman",
        runtime=Runtime.PODMAN,
        program_options=(Option("--log-level", "debug", 1), Option("--runtime", "crun", 7)),
        subcommand=Subcommand.RUN,
        options=(Option("--rm", "true", 4), Option("--env", "A=1", 5)),
        image="img:1",
        image_index=9,
        command=("serve", "--port", "80"),
    )
    found = command(*argv)
    assert [option.index for option in (*found.program_options, *found.options)] == [1, 7, 4, 5]
    assert found.image_index == 9


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("-e A=1", [("--env", "A=1")]),
        ("-eA=1", [("--env", "A=1")]),
        ("-e=A=1", [("--env", "A=1")]),
        ("-e=", [("--env", "=")]),
        ("--env=A=b=c", [("--env", "A=b=c")]),
        ("--entrypoint=", [("--entrypoint", "")]),
        ("--net host", [("--network", "host")]),
        ("-itd", [("--interactive", "true"), ("--tty", "true"), ("--detach", "true")]),
        ("-itdp 80:81", [("--interactive", "true"), ("--tty", "true"), ("--detach", "true"),
                         ("--publish", "80:81")]),
        ("-itv/a:/b", [("--interactive", "true"), ("--tty", "true"), ("--volume", "/a:/b")]),
        ("-it=false", [("--interactive", "true"), ("--tty", "false")]),
        ("-h=box", [("--hostname", "box")]),
        # A flag that takes a value takes the next word, whatever it looks like.
        ("-e -ti", [("--env", "-ti")]),
        ("-e --", [("--env", "--")]),
        ("--name --rm", [("--name", "--rm")]),
        ("-it -", None),
        ("--rm --", [("--rm", "true")]),
        ("--init=F --init=1", [("--init", "F"), ("--init", "1")]),
        ("-c 512", [("--cpu-shares", "512")]),
        ("-p={port}:{port} -v{model_dir}:/m --init={custom:init}",
         [("--publish", "{port}:{port}"), ("--volume", "{model_dir}:/m"), ("--init", "{custom:init}")]),
    ],
)  # fmt: skip
def test_the_ways_to_write_an_option(argv: str, expected: list[tuple[str, str]] | None) -> None:
    if expected is None:
        assert command("docker", "run", *argv.split(), "IMAGE").command == ("IMAGE",)
    else:
        assert options(*argv.split()) == expected


@pytest.mark.parametrize(
    ("argv", "image", "rest"),
    [
        ("docker run a b c", "a", ("b", "c")),
        ("docker run a --rm -- -x", "a", ("--rm", "--", "-x")),
        ("docker run -- a --rm", "a", ("--rm",)),
        ("docker run -- -x y", "-x", ("y",)),
        ("docker run - y", "-", ("y",)),
        ("docker run --rm false true", "false", ("true",)),
        ("docker --context gpu run a", "a", ()),
        ("docker -c gpu run -c 5 a", "a", ()),
        ("docker -Hunix:///x -D container create a", "a", ()),
        ("podman --remote --url=unix:///x create --init-ctr once a", "a", ()),
        ("podman container --log-level debug run a", "a", ()),
        ("podman-remote run a", "a", ()),
        ("docker.exe run a", "a", ()),
        ("sudo -u docker -E podman run a", "a", ()),
        ("/usr/bin/env A=1 /opt/bin/docker run a", "a", ()),
        ("sudo nerdctl run a", "a", ()),
        ("podman run x/{arch_alias}:1 {custom_args}", "x/{arch_alias}:1", ("{custom_args}",)),
        (
            "podman run {custom:image:-a} -m {checkpoint:main}",
            "{custom:image:-a}",
            ("-m", "{checkpoint:main}"),
        ),
    ],
)
def test_options_end_at_the_image(argv: str, image: str, rest: tuple[str, ...]) -> None:
    found = command(*argv.split())

    assert (found.image, found.command) == (image, rest)
    assert argv.split()[found.image_index] == image


@pytest.mark.parametrize(
    "argv",
    [
        "",
        "docker",
        "docker --version",
        "podman container",
        "podman stop -t 3 x",
        "docker compose run a",
        "podman container exec run a",
        "/opt/engine run a",
        "env A=1 /opt/engine",
        "sudo docker ps",
        "docker.sh run a",
        "RUN a",
    ],
)
def test_what_runs_no_container_is_none(argv: str) -> None:
    assert split(argv.split()) is None


@pytest.mark.parametrize(
    ("argv", "message", "index"),
    [
        (
            "podman run --rm --gpu a",
            "podman run: unknown flag '--gpu', at argv[3] (did you mean '--gpus'?)",
            3,
        ),
        ("docker run -itz a", "docker run: unknown flag '-z' in '-itz', at argv[2]", 2),
        ("docker run -rm a", "(a long flag begins with two dashes, '--rm')", 2),
        ("docker --gpus all run a", "docker: unknown flag '--gpus', at argv[1] (known to podman run", 1),
        ("docker run --context x a", "known to podman before its command, docker before its command", 2),
        ("podman run --link x a", "known to docker run, docker create", 2),
        ("docker run --replace a", "known to podman run, podman create", 2),
        ("docker create -d a", "known to podman run, docker run", 2),
        ("docker run --log-level debug a", "unknown flag '--log-level'", 2),
        ("podman run --module x a", "known to podman before its command", 2),
        ("docker run --init=yes a", "'--init' is true or false, not 'yes', at argv[2]", 2),
        ("docker run -it= a", "unknown flag '-='", 2),
        ("docker run --name", "'--name' needs a value, at argv[2]", 2),
        ("docker run -itv", "'--volume' needs a value, at argv[2]", 2),
        ("docker run --=x a", "'--=x' is no flag", 2),
        ("docker run ---rm a", "'---rm' is no flag", 2),
        ("docker run", "docker run: no image, at argv[1]", 1),
        ("docker run --name a", "no image, at argv[3] (an option may have taken", 3),
        ("docker run --rm --", "no image", 3),
        ("docker run --{custom:flag} a", "a token cannot stand in the name of a flag", 2),
        ("docker run -{custom:flag} a", "a token cannot stand in the name of a flag", 2),
        ("docker run {custom_args} a", "nobody can tell the image, at argv[2] (put it behind the image)", 2),
        ("docker run -- {custom_args}", "nobody can tell the image", 3),
        ("docker run -e {custom_args} a", "nobody can tell the image", 3),
        ("docker {custom_args} run a", "nobody can tell the image", 1),
        ("docker {custom:do:-run} a", "a token where the command is to be", 1),
        ("sudo docker run --wat a", "unknown flag '--wat', at argv[3]", 3),
    ],
)
def test_what_they_would_refuse_is_refused_with_its_place(argv: str, message: str, index: int) -> None:
    error = refusal(*argv.split())

    assert message in str(error)
    assert error.index == index


def test_an_image_without_a_name_is_refused() -> None:
    assert "the name of the image is empty" in str(refusal("docker", "run", "", "x"))


@pytest.mark.parametrize(
    ("argv", "direct"),
    [
        ("podman run a", True),
        ("/usr/bin/docker run a", True),
        ("sudo podman run a", False),
        ("podman-hpc run a", False),
        ("nerdctl run a", False),
    ],
)
def test_who_only_talks_like_them_is_told_apart(argv: str, direct: bool) -> None:
    assert command(*argv.split()).direct is direct


@pytest.mark.parametrize(
    ("flags", "on"),
    [
        ("", False),
        ("--rm", True),
        ("--rm --rm=false", False),
        ("--rm=0 --rm=T", True),
        ("--rm={custom:x}", False),
    ],
)
def test_the_last_of_a_repeated_flag_counts(flags: str, on: bool) -> None:
    assert command("docker", "run", *flags.split(), "a").is_on("--rm") is on


def test_how_it_was_written_makes_no_difference() -> None:
    argv: list[Any] = [
        "docker container run -itv /a:/b img x",
        "docker run --interactive -t=true -v=/a:/b -- img x",
    ]
    first, second = (command(*line.split()) for line in argv)

    assert first == second
    assert first.image_index != second.image_index
