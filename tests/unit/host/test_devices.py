"""Who may open a device node: the kernel's rules, and what a folder of nodes needs."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from lemonpod.host.devices import DeviceNode, Grant, device_nodes, needed, parse_acl
from lemonpod.host.user import User
from tests.users import NOBODY, open_folder

RENDER = 4242
USER = User(uid=1000, gid=1000, groups=frozenset({RENDER}))


def node(mode: int, uid: int = 0, gid: int = RENDER, *grants: Grant, path: str = "/dev/kfd") -> DeviceNode:
    return DeviceNode(path=path, mode=mode, uid=uid, gid=gid, grants=grants)


@pytest.mark.parametrize(
    ("device", "alone", "with_groups"),
    [
        (node(0o660), False, True),
        (node(0o666), True, True),
        (node(0o600), False, False),
        (node(0o664), False, True),
        (node(0o640), False, False),
        (node(0o660, 1000), True, True),
        (node(0o066, 1000), False, False),  # the owner's bits count for the owner
        (node(0o606), True, False),  # and the group's for its members
        (node(0o660, 0, 1000), True, True),
        (node(0o660, 0, 7, Grant(True, 1000, 6), Grant(False, None, 6)), True, True),
        (node(0o600, 0, 7, Grant(True, 1000, 6)), False, False),  # limited by the mask
        (node(0o660, 0, 7, Grant(True, 1001, 6), Grant(False, None, 0)), False, False),
        (node(0o660, 0, 7, Grant(False, RENDER, 6)), False, True),
        (node(0o660, 0, RENDER, Grant(False, None, 6), Grant(False, 7, 0)), False, True),
    ],
)
def test_access_is_decided_as_the_kernel_does(device: DeviceNode, alone: bool, with_groups: bool) -> None:
    assert device.may_open(USER) is with_groups
    assert device.may_open(USER.without_groups()) is alone
    assert device.may_open(User(uid=0, gid=0))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes; run the tests as root")
@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
@pytest.mark.parametrize("groups", [frozenset[int](), frozenset({RENDER})])
def test_the_kernel_agrees(mode: int, groups: frozenset[int]) -> None:
    user = User(uid=NOBODY, gid=NOBODY, groups=groups)
    with open_folder() as folder:
        path = folder / "null"
        try:
            os.mknod(path, 0o020000 | mode, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("this container may make no device nodes (CAP_MKNOD)")
        os.chown(path, 0, RENDER)
        path.chmod(mode)
        (found,) = device_nodes("/null", folder)
        assert found.mode == mode
        look = ["test", "-r", str(path), "-a", "-w", str(path)]
        opens = subprocess.run(look, user=NOBODY, group=NOBODY, extra_groups=list(groups), check=False)
    assert found.may_open(user) is (opens.returncode == 0)


def test_an_access_list_is_read() -> None:
    entries = [(1, 6, 2**32 - 1), (2, 6, 1000), (4, 4, 2**32 - 1), (8, 6, 7), (16, 6, 2**32 - 1), (32, 0, 0)]
    raw = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)

    assert parse_acl(raw) == (Grant(True, 1000, 6), Grant(False, None, 4), Grant(False, 7, 6))
    for broken in (b"", b"\0\0\0\0", raw[:-1], b"\x03" + raw[1:]):
        assert parse_acl(broken) == ()


def test_the_nodes_of_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "dev/dri"
    (folder / "by-path").mkdir(parents=True)
    for name in ("card0", "renderD128"):
        (folder / name).symlink_to("/dev/null")
    (folder / "file").touch()
    (folder / "dangling").symlink_to("nowhere")

    assert [found.path for found in device_nodes("/dev/dri", tmp_path)] == [
        "/dev/dri/card0",
        "/dev/dri/renderD128",
    ]
    assert [found.path for found in device_nodes("/dev/dri/card0", tmp_path)] == ["/dev/dri/card0"]
    assert device_nodes("/dev/dri/file", tmp_path) == ()
    with pytest.raises(FileNotFoundError):
        device_nodes("/dev/kfd", tmp_path)


def test_computing_needs_the_render_nodes() -> None:
    card, render = node(0o600, path="/dev/dri/card0"), node(0o600, path="/dev/dri/renderD128")

    assert needed((card, render)) == (render,)
    assert needed((card,)) == (card,)


def test_a_node_names_the_group_that_opens_it() -> None:
    assert node(0o660).group == str(RENDER)
    assert node(0o600).group is None
    assert node(0o660, 0, 0).group is None
    assert str(node(0o660)) == f"/dev/kfd (0660 root:{RENDER})"
