"""The page of flags says of each what the table says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lemonpod.launch.argv.flags import PROGRAM_FLAGS, SUBCOMMAND_FLAGS, Subcommand
from lemonpod.launch.argv.meanings import MEANINGS, ByCli, ClientOnly, Said, Stops
from lemonpod.launch.container import Runtime

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "run-flags.md").read_text("utf-8")


def written(runtime: Runtime, flag: str) -> str:
    match MEANINGS[runtime].get(flag):
        case None:
            return "-"
        case Said():
            return "said"
        case ClientOnly(why):
            return f"client only: {why}"
        case ByCli(why):
            return f"by CLI: {why}"
        case Stops(why):
            return f"nothing runs: it {why}"


def short_names(flag: str) -> set[str]:
    tables = [SUBCOMMAND_FLAGS[runtime, Subcommand.RUN] for runtime in Runtime]
    return {name for table in tables for name, one in table.items() if one.name == flag and name[1] != "-"}


def expected() -> Iterator[str]:
    for flag in sorted({flag for runtime in Runtime for flag in MEANINGS[runtime]}):
        names = " ".join(f"`{name}`" for name in (*sorted(short_names(flag)), flag))
        yield f"| {names} | {written(Runtime.PODMAN, flag)} | {written(Runtime.DOCKER, flag)} |"


def test_the_table_of_flags_is_the_one_in_the_code() -> None:
    rows = [line for line in PAGE.partition("## Flags")[2].splitlines() if line.startswith("| `")]

    assert rows == list(expected())


def test_flags_before_the_command_are_there_too() -> None:
    assert all(f"`{flag.name}`" in PAGE for table in PROGRAM_FLAGS.values() for flag in table.values())
