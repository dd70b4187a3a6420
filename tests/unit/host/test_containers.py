"""Facts that decide whether containers run, from small trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lemonpod.host.containers import (
    Cgroups,
    IdRanges,
    cgroups,
    id_ranges,
    may_map_ids,
    selinux_enforces,
    user_namespaces,
)
from lemonpod.host.user import User
from tests.users import NOBODY

USER = User(uid=NOBODY, gid=NOBODY)


def put(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", IdRanges(0, 100_000)),
        ("nobody:100000:65536\n", IdRanges(65536, 165536)),
        (f"{NOBODY}:100000:10\nother:100010:5\nnobody:200000:1\n", IdRanges(11, 200001)),
        ("other:100000:65536\n# nobody:1:2\nnobody:x:1\nnobody\n", IdRanges(0, 165536)),
    ],
)
def test_ranges_of_ids(tmp_path: Path, text: str, found: IdRanges) -> None:
    put(tmp_path, "etc/subuid", text)

    assert id_ranges(tmp_path, "subuid", USER) == found


def test_without_a_file_nobody_has_a_range(tmp_path: Path) -> None:
    assert id_ranges(tmp_path, "subgid", USER) == IdRanges(0, 100_000)


@pytest.mark.parametrize(
    ("line", "known"), [("subid: sss", False), ("subid: files", True), ("#subid: sss", True)]
)
def test_ranges_of_another_service_are_unknown(tmp_path: Path, line: str, known: bool) -> None:
    put(tmp_path, "etc/nsswitch.conf", f"passwd: files sss\n{line}\n")

    assert (id_ranges(tmp_path, "subuid", USER) is not None) is known


@pytest.mark.parametrize("name", ["user.max_user_namespaces", "kernel.unprivileged_userns_clone"])
def test_a_setting_that_forbids_user_namespaces(tmp_path: Path, name: str) -> None:
    assert user_namespaces(tmp_path) is None
    file = put(tmp_path, f"proc/sys/{name.replace('.', '/')}", "0\n")
    assert user_namespaces(tmp_path) == name
    file.write_text("1\n")
    assert user_namespaces(tmp_path) is None


def test_a_program_that_may_map_ids(tmp_path: Path) -> None:
    program = put(tmp_path, "newuidmap", "")
    program.chmod(0o755)
    assert not may_map_ids(program)
    assert not may_map_ids(tmp_path / "none")
    program.chmod(0o4755)
    assert may_map_ids(program) is (os.geteuid() == 0)  # setuid of its owner, who has to be root


@pytest.mark.parametrize(("text", "enforces"), [("1", True), ("0", False), (None, False)])
def test_selinux(tmp_path: Path, text: str | None, enforces: bool) -> None:
    if text is not None:
        put(tmp_path, "sys/fs/selinux/enforce", text)
    assert selinux_enforces(tmp_path) is enforces


def test_version_2_delegates_what_systemd_says(tmp_path: Path) -> None:
    put(tmp_path, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")

    assert cgroups(tmp_path, None) == Cgroups(2, frozenset({"cpuset", "cpu", "io", "memory", "pids"}))
    assert cgroups(tmp_path, USER) is None
    user = f"user.slice/user-{NOBODY}.slice/user@{NOBODY}.service"
    put(tmp_path, f"sys/fs/cgroup/{user}/cgroup.controllers", "memory pids\n")
    assert cgroups(tmp_path, USER) == Cgroups(2, frozenset({"memory", "pids"}))


def test_version_1_delegates_nothing(tmp_path: Path) -> None:
    rows = ("cpu\t1\t1\t1", "memory\t4\t1\t0", "blkio\t7\t1\t1", "pids\t0\t1\t1")
    put(tmp_path, "proc/cgroups", "\n".join(["#subsys_name\thierarchy\tnum_cgroups\tenabled", *rows]))

    assert cgroups(tmp_path, None) == Cgroups(1, frozenset({"cpu", "io"}))
    assert cgroups(tmp_path, USER) == Cgroups(1, frozenset())


def test_without_cgroups_nothing_is_known(tmp_path: Path) -> None:
    assert cgroups(tmp_path, None) is None
