"""Whatever podman and docker are asked for: it is said whole, or ArgvError says what is not, and why."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod.drivers.docker_body import docker_create
from lemonpod.drivers.podman_body import podman_create
from lemonpod.errors import ArgvError
from lemonpod.launch.argv.flags import PROGRAM_FLAGS, SUBCOMMAND_FLAGS, Flag, Subcommand, Takes
from lemonpod.launch.argv.meanings import MEANINGS, ByCli, ClientOnly, Said, Stops
from lemonpod.launch.argv.run import container_spec
from lemonpod.launch.argv.split import ContainerCommand, Option, join, split
from lemonpod.launch.argv.values import Caller
from lemonpod.launch.container import ContainerSpec, Runtime, as_json

RENDER = {Runtime.DOCKER: docker_create, Runtime.PODMAN: podman_create}
GRAMMAR = [
    "",
    "=",
    ",",
    ":",
    "/",
    '"',
    "-",
    "*",
    "[",
    "]",
    "\0",
    "\n",
    "\ud800",
    "é",
    "٣",
    "9" * 5000,
    "-1",
    "0",
]
WORDS = [
    *GRAMMAR, "a", "lan", "/a", "./a", "..", "/dev/a", "ro", "Z", "rw", "all", "host", "none", "container",
    "keep-id", "auto", "keep-groups", "8000", "8000-8002", "127.0.0.1", "::1", "[::1]", "udp", "1g", "1.5",
    "30s", "type", "bind", "tmpfs", "volume", "src", "dst", "tmpfs-mode", "1777", "device", "count",
    "capabilities", "nvidia.com/gpu", "label", "disable", "seccomp", "unmask", "memlock", "always",
    "on-failure", "linux", "arm64", "TERM", "RTMIN", "NAME", "A*", "file", "net.core.x", "max-size",
    '["sh","-c"]', "CMD",
]  # fmt: skip
VALUES = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=7).map("".join),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(":".join),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map("=".join),
    st.text(max_size=8),
)
FILES = st.sampled_from(["A=1\n# b\n NAME\n", "=\n", "\0", "{}", "export A=1", ""])


def option(flag: Flag) -> st.SearchStrategy[Option]:
    values = st.sampled_from(["true", "0"]) if flag.takes is Takes.NOTHING else VALUES
    return values.map(lambda value: Option(flag.name, value, 1))


@st.composite
def commands(draw: st.DrawFn, *, flags: int = 4) -> ContainerCommand:
    runtime, subcommand = draw(st.sampled_from(Runtime)), draw(st.sampled_from(Subcommand))
    known = SUBCOMMAND_FLAGS[runtime, subcommand].values()
    said = sorted(
        {flag.name: flag for flag in known if not flag.of_program}.values(), key=lambda one: one.name
    )
    sayable = [flag for flag in said if isinstance(MEANINGS[runtime][flag.name], Said)]
    chosen = st.sampled_from(sayable if draw(st.integers(0, 9)) else said)
    return ContainerCommand(
        wrapper=(),
        program=runtime.value,
        runtime=runtime,
        program_options=(),
        subcommand=subcommand,
        options=tuple(draw(st.lists(chosen.flatmap(option), max_size=flags))),
        image=draw(st.sampled_from(["img", "a/b:c", "Bad", "oci:x", "\ud800", "-"])),
        image_index=2,
        command=("x",),
    )


def caller(text: str) -> Caller:
    def read(path: str) -> str:
        if "file" not in path:
            raise FileNotFoundError(2, "No such file or directory")
        return text

    return Caller(cwd="/home/u", env={"NAME": "value", "A1": ""}, read=read)


def spec_or_none(command: ContainerCommand, files: str) -> ContainerSpec | None:
    try:
        return container_spec(command, caller(files))
    except ArgvError as error:
        refused = error
    assert 0 < refused.index <= 4
    assert refused.reason.startswith(command.runtime)
    return None


@given(commands(), FILES)
@settings(max_examples=1500)
def test_a_command_becomes_a_body_or_is_refused(command: ContainerCommand, files: str) -> None:
    spec = spec_or_none(command, files)
    if spec is None:
        return
    query, body = RENDER[command.runtime](spec)

    assert json.dumps([query, body, as_json(spec)])


@given(commands(flags=3), FILES)
@settings(max_examples=300)
def test_what_is_printed_asks_for_the_same(command: ContainerCommand, files: str) -> None:
    spec = spec_or_none(command, files)
    again = split(join(command))

    assert again is not None
    if spec is not None:
        assert container_spec(again, caller(files)) == spec


SAID_BY_A_VALUE = {
    "--add-host": "h:1.1.1.1", "--annotation": "a=b", "--arch": "arm64", "--attach": "stdin",
    "--blkio-weight-device": "/dev/a:100", "--cgroupns": "host", "--cgroups": "disabled", "--cpus": "1.5",
    "--device": "/dev/a", "--device-cgroup-rule": "c 1:3 rwm", "--device-read-bps": "/dev/a:1m",
    "--device-read-iops": "/dev/a:1", "--device-write-bps": "/dev/a:1m", "--device-write-iops": "/dev/a:1",
    "--dns": "1.1.1.1", "--env": "A=1", "--env-file": "file", "--expose": "80", "--gpus": "all",
    "--health-cmd": "x",
    "--http-proxy": "false", "--image-volume": "tmpfs", "--init": "false", "--ip": "1.1.1.1", "--ip6": "::1",
    "--ipc": "host", "--label-file": "file", "--log-opt": "a=b", "--mac-address": "02:42:ac:11:00:02",
    "--memory": "1g", "--memory-reservation": "1g", "--memory-swap": "-1", "--mount": "type=tmpfs,dst=/x",
    "--passwd": "false", "--pid": "host", "--platform": "linux/arm64", "--publish": "80", "--pull": "never",
    "--read-only-tmpfs": "false", "--restart": "always", "--sdnotify": "ignore",
    "--security-opt": "label=disable", "--health-interval": "5s", "--health-start-period": "5s",
    "--health-timeout": "5s", "--health-start-interval": "5s",
    "--shm-size": "1g", "--stop-signal": "INT", "--sysctl": "net.a=1", "--systemd": "always", "--tmpfs": "/x",
    "--ulimit": "memlock=-1", "--userns": "host", "--uts": "host", "--volume": "/a:/b",
    "--storage-opt": "a=b",
}  # fmt: skip
BESIDE = {
    "--network-alias": "--network=lan",
    "--replace": "--name=n",
    "--health-interval": "--health-cmd=x",
    "--health-retries": "--health-cmd=x",
    "--health-start-period": "--health-cmd=x",
    "--health-timeout": "--health-cmd=x",
}
"""What a flag needs beside it."""
NUMBERS = "5"
NO_WORDS = {Takes.NOTHING: "true"}


def test_no_flag_is_dropped() -> None:
    """Each changes the spec, or has its reason in the table why it does not, or is an error."""
    for runtime in Runtime:
        flags = {**PROGRAM_FLAGS[runtime], **SUBCOMMAND_FLAGS[runtime, Subcommand.RUN]}
        for flag in {flag.name: flag for flag in flags.values()}.values():
            check_that_it_is_heard(runtime, flag)


def check_that_it_is_heard(runtime: Runtime, flag: Flag) -> None:
    beside = [BESIDE[flag.name]] if flag.name in BESIDE else []
    value = SAID_BY_A_VALUE.get(flag.name, NO_WORDS.get(flag.takes, NUMBERS))
    word = f"{flag.name}={value}"
    before, after = ([word], []) if flag.of_program else ([], [word])
    silent = split([runtime.value, "run", *beside, "img"])
    heard = split([runtime.value, *before, "run", *beside, *after, "img"])
    assert silent is not None
    assert heard is not None
    files = "A=1\n"
    match MEANINGS[runtime][flag.name]:
        case Said():
            assert container_spec(heard, caller(files)) != container_spec(silent, caller(files)), word
        case ClientOnly(why):
            assert why
            assert container_spec(heard, caller(files)) == container_spec(silent, caller(files)), word
        case ByCli(why) | Stops(why):
            assert why
            assert spec_or_none(heard, files) is None, word
