"""What `lemonpod doctor` says of what a container is to get, from whole command lines and small trees."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lemonpod.cli.check import Check
from lemonpod.cli.examine_containers import container_checks, device_access
from lemonpod.cli.examine_engines import Engine, Machine
from lemonpod.drivers.address import Address
from lemonpod.host.containers import Cgroups
from lemonpod.host.devices import DeviceNode
from lemonpod.host.user import User
from lemonpod.launch.argv.run import container_spec
from lemonpod.launch.argv.split import split
from lemonpod.launch.argv.values import Caller
from lemonpod.launch.container import ContainerSpec, Runtime
from tests.fakes.daemon import DOCKER, PODMAN, daemon
from tests.users import NOBODY

RENDER = 4242
USER = User(uid=NOBODY, gid=NOBODY, groups=frozenset({RENDER}))
ROOTFUL = Engine(
    runtime=Runtime.PODMAN,
    address=None,
    local=True,
    rootless=False,
    oci_runtime="crun",
    labels=False,
    limits=Cgroups(2, frozenset({"cpu", "cpuset", "io", "memory", "pids"})),
)
ROOTLESS = replace(ROOTFUL, rootless=True)
DOCKER_ENGINE = replace(ROOTFUL, runtime=Runtime.DOCKER)


def spec_of(line: str) -> ContainerSpec:
    command = split(line.split())
    assert command is not None
    return container_spec(command, Caller(cwd="/work", env={}, read=lambda path: ""))


def checks(line: str, engine: Engine, root: Path, user: User = USER) -> list[Check]:
    here = Machine(root=root, user=user, environ={}, home=Path("/"), path=str(root / "bin"))
    return list(container_checks("recipe r", spec_of(line), engine, here))


def finding(line: str, engine: Engine, root: Path, user: User = USER) -> Check:
    """The only one; it says what to do."""
    (check,) = checks(line, engine, root, user)
    assert not check.ok
    assert check.fix
    return check


def access(line: str, device: DeviceNode) -> list[tuple[str, str]]:
    """Of a user's own engine; only root could make such nodes for a test."""
    spec = spec_of(line)
    return list(device_access(device, spec, spec.runtime, USER))


def node(mode: int, gid: int = RENDER, path: str = "/dev/kfd") -> DeviceNode:
    return DeviceNode(path=path, mode=mode, uid=0, gid=gid)


# --- devices


@pytest.mark.parametrize("asked", [ROOTFUL, ROOTLESS, DOCKER_ENGINE])
def test_a_missing_device_is_named(tmp_path: Path, asked: Engine) -> None:  # C11
    (tmp_path / "dev/dri").mkdir(parents=True)
    (tmp_path / "dev/dri/renderD128").symlink_to("/dev/null")
    line = f"{asked.runtime} run --device /dev/kfd --device /dev/dri i"

    check = finding(line, asked, tmp_path)
    assert (check.name, check.found) == ("recipe r", "/dev/kfd does not exist")
    assert "modprobe amdgpu" in (check.fix or "")


def test_a_device_that_the_user_may_not_open() -> None:  # C11
    ((found, fix),) = access("podman run i", node(0o660, 77))
    assert found == "/dev/kfd (0660 root:77) may not be opened by nobody"
    joining = "sudo usermod -aG 77 nobody, then log in again"
    assert fix == f"{joining}, and add '--group-add', 'keep-groups' to the manifest's args"
    ((_, fix),) = access("podman run --group-add keep-groups i", node(0o660, 77))
    assert fix == joining
    ((_, fix),) = access("docker run i", node(0o660, 77))
    assert fix == joining


def test_a_device_that_no_group_may_open() -> None:
    ((_, fix),) = access("podman run i", node(0o600))
    assert fix.startswith("sudo setfacl -m u:nobody:rw /dev/kfd")


def test_a_group_that_a_rootless_container_loses() -> None:  # C11
    ((found, fix),) = access("podman run --group-add render i", node(0o660))
    assert found.startswith("/dev/kfd (0660 root:4242): a rootless container loses the group")
    assert fix == "add '--group-add', 'keep-groups' to the manifest's args"
    assert access("podman run --group-add keep-groups i", node(0o660)) == []
    ((_, fix),) = access("docker run i", node(0o660))
    assert "setfacl" in fix


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes; run the tests as root")
def test_who_opens_a_device_depends_on_the_engine(tmp_path: Path) -> None:  # C11
    (tmp_path / "dev/dri").mkdir(parents=True)
    for name, mode in {"card0": 0o600, "renderD128": 0o666, "renderD129": 0o600}.items():
        try:
            os.mknod(tmp_path / "dev/dri" / name, 0o020000 | mode, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("this container may make no device nodes (CAP_MKNOD)")
        (tmp_path / "dev/dri" / name).chmod(mode)

    check = finding("podman run --device /dev/dri i", ROOTLESS, tmp_path)
    assert check.found == "/dev/dri/renderD129 (0600 root:root) may not be opened by nobody"
    for engine in (ROOTFUL, DOCKER_ENGINE):
        assert checks(f"{engine.runtime} run --device /dev/dri i", engine, tmp_path) == []


def test_a_file_is_no_device(tmp_path: Path) -> None:
    (tmp_path / "f").touch()

    assert "is no device" in finding("podman run --device /f i", ROOTFUL, tmp_path).found


def test_cdi_names_that_no_spec_declares(tmp_path: Path) -> None:
    (tmp_path / "etc/cdi").mkdir(parents=True)
    spec = {"kind": "nvidia.com/gpu", "devices": [{"name": "0"}]}
    (tmp_path / "etc/cdi/nvidia.json").write_text(json.dumps(spec))

    assert checks("podman run --device nvidia.com/gpu=0 i", ROOTFUL, tmp_path) == []
    check = finding("podman run --device nvidia.com/gpu=all i", ROOTFUL, tmp_path)
    assert check.found == "no CDI spec in /etc/cdi or /var/run/cdi declares nvidia.com/gpu=all"
    assert check.fix == "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    other = finding("podman run --device x.org/y=z i", ROOTFUL, tmp_path)
    assert other.fix == "put the CDI spec of x.org into /etc/cdi"
    (tmp_path / "etc/cdi/bad.json").write_text("{")
    check = finding("podman run --device nvidia.com/gpu=all i", ROOTFUL, tmp_path)
    assert "/etc/cdi/bad.json: it is no CDI spec" in check.found


def test_gpus_of_docker_need_a_hook_or_a_spec(tmp_path: Path) -> None:
    line = "docker run --gpus all i"

    check = finding(line, DOCKER_ENGINE, tmp_path)
    assert check.found.startswith(
        "'--gpus' is asked for, and neither nvidia-container-runtime-hook nor a CDI"
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvidia-container-runtime-hook").touch(mode=0o755)
    assert checks(line, DOCKER_ENGINE, tmp_path) == []
    (tmp_path / "bin/nvidia-container-runtime-hook").unlink()
    (tmp_path / "etc/cdi").mkdir(parents=True)
    (tmp_path / "etc/cdi/x.yaml").write_text("kind: nvidia.com/gpu\ndevices: [{name: all}]")
    assert checks(line, DOCKER_ENGINE, tmp_path) == []


# --- mounts


@pytest.mark.parametrize(
    ("line", "asked", "why"),
    [
        ("podman run -v /no/such:/m i", ROOTFUL, "it cannot be mounted"),
        ("podman run --mount type=bind,src=/no/such,dst=/m i", ROOTFUL, "it cannot be mounted"),
        ("docker run -v /no/such:/m i", DOCKER_ENGINE, "docker makes an empty folder of root there"),
        ("docker run --mount type=bind,src=/no/such,dst=/m i", DOCKER_ENGINE, "it cannot be mounted"),
    ],
)
def test_a_mount_of_nothing(tmp_path: Path, line: str, asked: Engine, why: str) -> None:  # C13
    check = finding(line, asked, tmp_path)

    assert check.found == f"/no/such does not exist: {why}"
    assert check.fix == "mkdir -p /no/such, or correct the mount"


def test_mounts_that_are_there(tmp_path: Path) -> None:  # C13
    (tmp_path / "work/rel").mkdir(parents=True)
    (tmp_path / "m").mkdir()

    line = "podman run -v /m/:/a -v ./rel:/b -v named:/c -v /anonymous --tmpfs /t i"
    assert checks(line, ROOTFUL, tmp_path) == []


def test_selinux_and_mounts_without_a_label(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    enforcing = replace(ROOTFUL, labels=True)

    check = finding("podman run -v /m:/m i", enforcing, tmp_path)
    assert check.found == "SELinux keeps the container from /m, mounted without ':z' or ':Z'"
    assert "'label=disable'" in (check.fix or "")
    assert checks("podman run -v /m:/m i", ROOTFUL, tmp_path) == []
    for fine in (
        "-v /m:/m:ro,Z",
        "--mount type=bind,src=/m,dst=/m,relabel=shared",
        "--security-opt label=disable -v /m:/m",
        "--privileged -v /m:/m",
    ):
        assert checks(f"podman run {fine} i", enforcing, tmp_path) == []


# --- limits and rights


@pytest.mark.parametrize(
    ("flags", "lacking"),
    [
        ("--memory 1g", "memory"),
        ("--cpus 2", "cpu"),
        ("--cpuset-cpus 0 --pids-limit 5", "cpuset, pids"),
        ("--memory-swap -1 --pids-limit -1 --cpu-shares 0", None),
    ],
)
def test_limits_that_nobody_would_keep(tmp_path: Path, flags: str, lacking: str | None) -> None:
    engine = replace(ROOTLESS, limits=Cgroups(2, frozenset()))
    line = f"podman run {flags} i"

    if lacking is None:
        assert checks(line, engine, tmp_path) == []
        return
    check = finding(line, engine, tmp_path)
    assert check.found.startswith(f"a limit on {lacking} is asked for, and a rootless engine has no such")
    assert "Delegate=cpu cpuset io memory pids" in (check.fix or "")
    version_1 = finding(line, replace(engine, limits=Cgroups(1, frozenset())), tmp_path)
    assert "unified_cgroup_hierarchy" in (version_1.fix or "")
    rootful = finding(line, replace(engine, rootless=False), tmp_path)
    assert f"cgroup_enable={lacking.partition(',')[0]}" in (rootful.fix or "")
    for fine in (ROOTLESS, replace(engine, limits=None)):
        assert checks(line, fine, tmp_path) == []


def test_groups_are_kept_by_crun_alone(tmp_path: Path) -> None:
    line = "podman run --group-add keep-groups i"

    for engine in (ROOTLESS, replace(ROOTLESS, oci_runtime=None)):
        assert checks(line, engine, tmp_path) == []
    assert "runc would run" in finding(line, replace(ROOTLESS, oci_runtime="runc"), tmp_path).found
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/runc").touch(mode=0o755)
    assert "sudo apt install crun" in (finding(line, replace(ROOTLESS, oci_runtime=None), tmp_path).fix or "")


def test_ids_are_kept_by_rootless_podman_alone(tmp_path: Path) -> None:
    line = "podman run --userns=keep-id i"

    assert checks(line, ROOTLESS, tmp_path) == []
    assert "'--userns=keep-id' is for rootless podman" in finding(line, ROOTFUL, tmp_path).found


def test_of_another_machine_nothing_is_examined(tmp_path: Path) -> None:
    line = "docker run --device /dev/kfd -v /no/such:/m --memory 1g i"

    assert checks(line, replace(DOCKER_ENGINE, local=False), tmp_path) == []


# --- images


@pytest.mark.parametrize("runtime", Runtime)
def test_images(tmp_path: Path, runtime: Runtime) -> None:
    there: dict[str, Any] = {
        "/v4.0.0/libpod/images/h:5000/a/b:1/exists": None,
        "/images/h:5000/a/b:1/json": {},
    }
    path = tmp_path / "s"
    engine = replace(ROOTFUL, runtime=runtime, address=Address(f"unix://{path}", "--url"))
    with daemon(path, {**PODMAN, **DOCKER}, there):
        (has,) = checks(f"{runtime} run h:5000/a/b:1", engine, tmp_path)
        (lacks,) = checks(f"{runtime} run h:5000/a/b:2", engine, tmp_path)
        never = finding(f"{runtime} run --pull=never h:5000/a/b:2", engine, tmp_path)

    assert (has.ok, has.found) == (True, f"{runtime} has h:5000/a/b:1")
    assert (lacks.ok, lacks.found) == (
        True,
        f"{runtime} does not have h:5000/a/b:2 yet: the first load pulls it",
    )
    assert never.fix == f"{runtime} pull h:5000/a/b:2"
    gone = finding(f"{runtime} run h:5000/a/b:1", engine, tmp_path)
    assert "no answer of an engine" in gone.found
