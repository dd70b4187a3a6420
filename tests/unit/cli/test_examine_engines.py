"""What `lemonpod doctor` says of engines: none, a silent one, one that is another, a rootless one."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from lemonpod.cli.check import Check
from lemonpod.cli.examine_engines import (
    DOCKER_INFO,
    PODMAN_INFO,
    Engine,
    Machine,
    find_engine,
    rootless_checks,
)
from lemonpod.drivers.runtimes import Place
from lemonpod.host.containers import Cgroups
from lemonpod.host.user import User
from lemonpod.launch.argv.connection import Connection
from lemonpod.launch.container import Runtime
from tests.fakes.daemon import DOCKER, PODMAN, daemon
from tests.users import NOBODY, bound_by_modes, open_folder

ROOT = User(uid=0, gid=0)
SOMEBODY = User(uid=NOBODY, gid=NOBODY)


def machine(tmp_path: Path, user: User = ROOT, *programs: str, **environ: str) -> Machine:
    """One whose files are below a folder, with these programs."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for program in programs:
        (folder / program).touch()
        (folder / program).chmod(0o755)
    environ = {"XDG_RUNTIME_DIR": str(tmp_path), **environ}
    return Machine(root=tmp_path / "root", user=user, environ=environ, home=tmp_path, path=str(folder))


def examined(runtime: Runtime, url: str | None, here: Machine) -> tuple[Engine, Check]:
    return find_engine(Place(runtime=runtime, program=runtime, connection=Connection(url=url)), here)


def put(root: Path, path: str, text: str = "") -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


# --- sockets


@pytest.mark.parametrize("runtime", Runtime)
def test_no_socket(tmp_path: Path, runtime: Runtime) -> None:  # C17
    url = f"unix://{tmp_path}/none.sock"
    engine, check = examined(runtime, url, machine(tmp_path, ROOT, "podman", "docker"))

    assert engine.address is None
    assert not check.ok
    assert f"does not answer: {url} (--" in check.found
    assert check.found.endswith("there is no such file")
    assert check.fix
    assert check.fix.startswith("start the engine that is to listen there, or correct --")


@pytest.mark.parametrize("runtime", Runtime)
def test_a_stopped_daemon(tmp_path: Path, runtime: Runtime) -> None:  # C17
    path = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    _, check = examined(runtime, f"unix://{path}", machine(tmp_path))

    assert not check.ok
    assert check.found.endswith("nobody listens on it: it is stale")


def test_a_socket_without_permission() -> None:  # C17
    with open_folder() as folder, daemon(folder / "docker.sock", DOCKER):
        (folder / "docker.sock").chmod(0o600 if os.geteuid() == 0 else 0)
        here = machine(folder, SOMEBODY, "docker")
        with bound_by_modes():
            _, check = examined(Runtime.DOCKER, f"unix://{folder}/docker.sock", here)

    assert not check.ok
    assert "may not connect, its mode is" in check.found


@pytest.mark.parametrize("url", ["http+docker://x", "/run/docker.sock"])
def test_an_address_that_is_none(tmp_path: Path, url: str) -> None:  # C17
    _, check = examined(Runtime.DOCKER, None, machine(tmp_path, DOCKER_HOST=url))

    assert not check.ok
    assert check.found.startswith(f"DOCKER_HOST is '{url}', which is no address of an engine")
    assert check.fix


def test_an_engine_behind_ssh_is_left_to_its_program(tmp_path: Path) -> None:
    engine, check = examined(Runtime.DOCKER, "ssh://far", machine(tmp_path, ROOT, "docker"))

    assert check.ok
    assert check.found.endswith("it is left to docker")
    assert not engine.local


def test_podman_without_a_service_gets_one_of_lemonpods(tmp_path: Path) -> None:
    with daemon(tmp_path / "podman.sock", PODMAN):  # not where it is looked for
        engine, check = examined(Runtime.PODMAN, None, machine(tmp_path, SOMEBODY, "podman"))
    if Path("/run/podman/podman.sock").exists():
        pytest.skip("a podman of this machine answers")

    assert check.ok
    assert check.found.startswith(f"no service listens, so lemonpod runs its own by {tmp_path}/bin/podman")
    assert (engine.address, engine.rootless, engine.local) == (None, True, True)


@pytest.mark.parametrize("runtime", Runtime)
def test_an_engine_that_is_not_installed(tmp_path: Path, runtime: Runtime) -> None:
    if any(Path(path).exists() for path in ("/run/podman/podman.sock", "/var/run/docker.sock")):
        pytest.skip("an engine of this machine is installed")
    _, check = examined(runtime, None, machine(tmp_path))

    assert not check.ok
    assert check.fix
    assert "install" in check.fix


# --- who answers


def test_an_engine_that_answers(tmp_path: Path) -> None:
    info = {
        "host": {
            "cgroupVersion": "v2",
            "cgroupControllers": ["memory", "blkio"],
            "ociRuntime": {"name": "crun"},
            "security": {"rootless": True, "selinuxEnabled": True},
        }
    }
    put(tmp_path / "root", "sys/fs/selinux/enforce", "1")
    with daemon(tmp_path / "s", PODMAN, {PODMAN_INFO: info}):
        engine, check = examined(Runtime.PODMAN, f"unix://{tmp_path}/s", machine(tmp_path))

    assert check.ok
    assert check.found == f"unix://{tmp_path}/s (--url) answers: API 5.4.2, rootless"
    assert (engine.rootless, engine.local, engine.oci_runtime, engine.labels) == (True, True, "crun", True)
    assert engine.limits == Cgroups(2, frozenset({"memory", "io"}))


def test_what_docker_says_of_itself(tmp_path: Path) -> None:
    info = {
        "SecurityOptions": ["name=seccomp,profile=default", "name=rootless"],
        "DefaultRuntime": "runc",
        "CgroupVersion": "2",
        "MemoryLimit": True,
        "PidsLimit": False,
    }
    put(tmp_path / "root", "sys/fs/selinux/enforce", "1")
    with daemon(tmp_path / "s", DOCKER, {DOCKER_INFO: info}) as paths:
        engine, check = examined(Runtime.DOCKER, f"unix://{tmp_path}/s", machine(tmp_path))

    assert check.ok
    assert (engine.rootless, engine.labels, engine.oci_runtime) == (True, False, "runc")
    assert engine.limits == Cgroups(2, frozenset({"memory", "io"}))
    assert not any(path.startswith("/v1.") for path in paths)  # docker 29 refuses what is before 1.44: C17


@pytest.mark.parametrize(
    ("runtime", "headers", "ping", "why"),
    [
        (Runtime.PODMAN, DOCKER, 200, "is not podman"),
        (Runtime.DOCKER, {}, 200, "is not docker"),
        (Runtime.DOCKER, DOCKER, 500, "is not docker"),
        (Runtime.PODMAN, {"Libpod-Api-Version": "4.2.1"}, 200, "4.3 is the oldest"),
        (Runtime.DOCKER, {"Api-Version": "1.40"}, 200, "1.41 is the oldest"),
    ],
)
def test_who_is_not_spoken_to(
    tmp_path: Path, runtime: Runtime, headers: dict[str, str], ping: int, why: str
) -> None:  # C17
    with daemon(tmp_path / "s", headers, ping=ping):
        engine, check = examined(runtime, f"unix://{tmp_path}/s", machine(tmp_path))

    assert not check.ok
    assert why in check.found
    assert check.fix
    assert engine.address is None


@pytest.mark.parametrize("info", [{}, [], {"host": None}, {"host": {"security": 7, "cgroupControllers": 1}}])
@pytest.mark.parametrize("runtime", Runtime)
def test_an_engine_that_says_nothing_of_itself_is_one_still(
    tmp_path: Path, runtime: Runtime, info: Any
) -> None:
    answers = {PODMAN_INFO: info, DOCKER_INFO: info}
    with daemon(tmp_path / "s", {**PODMAN, **DOCKER}, answers):
        engine, check = examined(runtime, f"unix://{tmp_path}/s", machine(tmp_path))

    assert check.ok
    assert engine.address is not None


def test_something_that_speaks_no_http(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()

        def answer() -> None:
            for _ in range(2):  # the look whether anybody listens, and the question
                client, _ = server.accept()
                with client:
                    if client.recv(1000):
                        client.sendall(b"SSH-2.0-x\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        _, check = examined(Runtime.DOCKER, f"unix://{tmp_path}/s", machine(tmp_path))
        thread.join()

    assert not check.ok
    assert "no answer of an engine" in check.found


# --- rootless


def rootless(here: Machine) -> list[Check]:
    found = list(rootless_checks(here))
    assert all(not check.ok and check.fix for check in found)
    return found


def test_rootless_without_ranges_of_ids(tmp_path: Path) -> None:
    put(tmp_path / "root", "etc/subuid", "other:100000:65536\n")
    put(tmp_path / "root", "etc/subgid", "nobody:100000:65536\n")
    here = machine(tmp_path, SOMEBODY, "newuidmap", "newgidmap")
    (check,) = (check for check in rootless(here) if "ids in" in check.found)

    assert check.found.startswith("nobody has no ids in /etc/subuid: ")
    assert check.fix == "sudo usermod --add-subuids 165536-231071 nobody && podman system migrate"
    put(tmp_path / "root", "etc/subgid")
    (check,) = (check for check in rootless(here) if "ids in" in check.found)
    assert "no ids in /etc/subuid and no ids in /etc/subgid" in check.found
    assert "--add-subgids 100000-165535 nobody" in (check.fix or "")


def test_rootless_without_the_programs_that_map_ids(tmp_path: Path) -> None:
    found = rootless(machine(tmp_path, SOMEBODY, "newuidmap"))

    assert f"{tmp_path}/bin/newuidmap is neither setuid root nor has file capabilities" in [
        check.found for check in found
    ]
    assert f"sudo chmod u+s {tmp_path}/bin/newuidmap" in [check.fix for check in found]
    assert "newgidmap is not installed" in [check.found for check in found]


def test_rootless_without_user_namespaces(tmp_path: Path) -> None:
    put(tmp_path / "root", "proc/sys/user/max_user_namespaces", "0\n")

    (check,) = (check for check in rootless(machine(tmp_path, SOMEBODY)) if "namespace" in check.found)
    assert check.found.startswith("user.max_user_namespaces is 0")
    assert "sysctl --system" in (check.fix or "")


@pytest.mark.parametrize(("folder", "why"), [("/no/such", "No such file"), ("/", "a folder of UID 0")])
def test_rootless_with_a_runtime_folder_of_nobody(tmp_path: Path, folder: str, why: str) -> None:
    here = machine(tmp_path, SOMEBODY, XDG_RUNTIME_DIR=folder)

    (check,) = (check for check in rootless(here) if "XDG_RUNTIME_DIR" in check.found)
    assert why in check.found
    assert f"/run/user/{NOBODY}" in (check.fix or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes programs setuid root; run the tests as root")
def test_rootless_where_all_is_well(tmp_path: Path) -> None:
    for file in ("subuid", "subgid"):
        put(tmp_path / "root", f"etc/{file}", "nobody:100000:65536\n")
    here = machine(tmp_path, SOMEBODY, "newuidmap", "newgidmap", XDG_RUNTIME_DIR="")
    for program in ("newuidmap", "newgidmap"):
        (tmp_path / "bin" / program).chmod(0o4755)

    assert rootless(here) == []
