"""The table knows what the real programs know: flags.json was taken from their help and sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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

DATA = json.loads((Path(__file__).parents[3] / "data/argv/flags.json").read_text("utf-8"))
RUN = {runtime: SUBCOMMAND_FLAGS[runtime, Subcommand.RUN] for runtime in Runtime}
CREATE = {runtime: SUBCOMMAND_FLAGS[runtime, Subcommand.CREATE] for runtime in Runtime}


def takes(row: dict[str, Any]) -> Takes:
    if not row["takes_value"]:
        return Takes.NOTHING
    return Takes.VALUES if row.get("repeatable") else Takes.VALUE


def names(row: dict[str, Any], runtime: Runtime) -> set[str]:
    """Every way to write the flag of `row` for `runtime`; none where it is unknown."""
    if not row[runtime]:
        return set()
    aliases = {alias["name"] for alias in row.get("aliases", ()) if runtime in alias["cli"]}
    return set(row["names"]) | aliases


@pytest.mark.parametrize("runtime", Runtime)
@pytest.mark.parametrize("row", DATA["run_flags"], ids=lambda row: row["names"][-1])
def test_a_flag_of_run_has_its_names_and_its_arity(row: dict[str, Any], runtime: Runtime) -> None:
    long = row["names"][-1]
    known = {name: flag for name, flag in RUN[runtime].items() if flag.name == long}

    assert set(known) == names(row, runtime)
    assert {flag.takes for flag in known.values()} <= {takes(row)}


@pytest.mark.parametrize("runtime", Runtime)
def test_no_other_flag_is_taken_by_run(runtime: Runtime) -> None:
    listed = {name for row in DATA["run_flags"] for name in names(row, runtime)}

    assert set(RUN[runtime]) - set(PERSISTENT_FLAGS[runtime]) <= listed


@pytest.mark.parametrize("runtime", Runtime)
def test_the_flags_before_the_subcommand(runtime: Runtime) -> None:
    rows = DATA["global_flags"][runtime]["flags"]
    # `--tls-ca`, `--tls-cert` and `--tls-key` share a row there, and are three flags.
    apart = [{**row, "names": [name]} for row in rows for name in row["names"] if len(row["names"]) > 2]
    rows = [row for row in rows if len(row["names"]) <= 2] + apart
    expected = {name: Flag(row["names"][-1], takes(row), True) for row in rows for name in row["names"]}

    assert dict(PROGRAM_FLAGS[runtime]) == expected


def test_podman_takes_its_persistent_flags_anywhere_and_docker_its_help() -> None:
    rows = DATA["global_flags"]["podman"]["flags"]
    persistent = {name for row in rows for name in row["names"] if row["scope"] == "persistent"}

    assert set(PERSISTENT_FLAGS[Runtime.PODMAN]) == persistent
    assert set(PERSISTENT_FLAGS[Runtime.DOCKER]) == {"--help"}
    for table in (RUN, CREATE):
        assert persistent <= set(table[Runtime.PODMAN])


def test_a_flag_of_run_hides_a_persistent_one_of_its_name() -> None:
    run = RUN[Runtime.PODMAN]

    assert not run["--storage-opt"].of_program
    assert PROGRAM_FLAGS[Runtime.PODMAN]["--storage-opt"].of_program
    assert run["--runtime"].of_program
    assert not RUN[Runtime.DOCKER]["--runtime"].of_program


@pytest.mark.parametrize(
    ("runtime", "lacks", "adds"),
    [
        (Runtime.DOCKER, "-d --detach --detach-keys --sig-proxy", ""),
        (
            Runtime.PODMAN,  # of podman 5; up to 4.9 it has no --gpus either, and nothing came of that flag
            "-d --detach --detach-keys --passwd --preserve-fd --preserve-fds --rmi --sig-proxy",
            "--init-ctr",
        ),
    ],
)
def test_create_differs_from_run(runtime: Runtime, lacks: str, adds: str) -> None:
    assert set(RUN[runtime]) - set(CREATE[runtime]) == set(lacks.split())
    assert set(CREATE[runtime]) - set(RUN[runtime]) == set(adds.split())


@pytest.mark.parametrize("flags", [*RUN.values(), *CREATE.values(), *PROGRAM_FLAGS.values()])
def test_every_flag_is_found_by_its_own_name(flags: Flags) -> None:
    assert all(flags[flag.name] is flag for flag in flags.values())
