"""Whatever stands on a command line: it is split, it is none, or ArgvError says why; and nothing is lost."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod.errors import ArgvError
from lemonpod.launch.argv.flags import (
    PROGRAM_FLAGS,
    SUBCOMMAND_FLAGS,
    Flag,
    Flags,
    Subcommand,
    Takes,
)
from lemonpod.launch.argv.split import PROGRAMS, WRAPPERS, ContainerCommand, Option, join, split
from lemonpod.launch.container import Runtime

WORDS = st.one_of(
    st.sampled_from(
        ["--", "-", "", "=", "run", "create", "container", "img:1", "a/b@sha256:0", "{custom_args}",
         "{custom:x}", "{custom:x:-run}", "--{custom:x}", "-e", "-it", "-itv", "--rm", "--rm=false", "--env=",
         "-p=", "--net", "---", "--=", "-=", "-e=", "-h", "--help", "--wat", "true", "\0", "é", "\ud800",
         "-\ud800"]
    ),
    st.sampled_from(sorted(PROGRAMS)),
    st.sampled_from(sorted(SUBCOMMAND_FLAGS[Runtime.PODMAN, Subcommand.RUN])),
    st.sampled_from(sorted(PROGRAM_FLAGS[Runtime.DOCKER])),
    st.text(max_size=6),
)  # fmt: skip
STARTS = st.sampled_from(
    [[], ["podman"], ["docker"], ["podman", "run"], ["docker", "run"], ["docker", "container", "create"],
     ["sudo"], ["sudo", "-u", "podman", "docker", "run"]]
)  # fmt: skip


@given(STARTS, st.lists(WORDS, max_size=8))
@settings(max_examples=1500)
def test_any_argv_is_split_or_refused(start: list[str], words: list[str]) -> None:
    argv = [*start, *words]
    try:
        command = split(argv)
    except ArgvError as error:
        command, _ = None, argv[error.index]  # which is a word of it
    if command is None:
        return
    assert argv[command.image_index :] == [command.image, *command.command]
    options = (*command.program_options, *command.options)
    assert all(argv[option.index].startswith("-") for option in options)
    assert {option.index for option in options} <= set(range(command.image_index))
    assert split(join(command)) == command


def given_options(flags: Flags, *, of_program: bool) -> st.SearchStrategy[tuple[Option, ...]]:
    chosen = sorted(
        {flag for flag in flags.values() if flag.of_program is of_program}, key=lambda one: one.name
    )

    def option(flag: Flag) -> st.SearchStrategy[Option]:
        values = st.sampled_from(["true", "0"]) if flag.takes is Takes.NOTHING else st.text(max_size=5)
        return values.map(lambda value: Option(flag.name, value, 0))

    return st.lists(st.sampled_from(chosen).flatmap(option), max_size=5).map(tuple)


@st.composite
def commands(draw: st.DrawFn) -> ContainerCommand:
    program = draw(st.sampled_from(sorted(PROGRAMS)))
    runtime, subcommand = PROGRAMS[program], draw(st.sampled_from(Subcommand))
    flags = SUBCOMMAND_FLAGS[runtime, subcommand]
    return ContainerCommand(
        wrapper=draw(st.sampled_from([(), ("sudo", "-n")])),
        program=program,
        runtime=runtime,
        program_options=draw(given_options(PROGRAM_FLAGS[runtime], of_program=True)),
        subcommand=subcommand,
        options=draw(given_options(flags, of_program=False)),
        image=draw(st.text(min_size=1, max_size=8)),
        image_index=0,
        command=tuple(draw(st.lists(WORDS, max_size=4))),
    )


@given(commands())
@settings(max_examples=500)
def test_what_is_joined_splits_into_the_same(command: ContainerCommand) -> None:
    assert split(join(command)) == command


@given(commands(), st.sampled_from(sorted(WRAPPERS)))
@settings(max_examples=100)
def test_a_wrapper_changes_nothing_behind_it(command: ContainerCommand, wrapper: str) -> None:
    wrapped = split([wrapper, *join(replace(command, wrapper=()))])
    assert wrapped == replace(command, wrapper=(wrapper,))
