"""`lemonpod doctor` on containers, whole: which are looked at, and what another user than root is told."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lemonpod.cli.app import run
from lemonpod.host.devices import device_nodes
from lemonpod.host.user import User, this_user
from tests.factories import make_document
from tests.fakes.daemon import DOCKER, daemon
from tests.users import NOBODY, open_folder

REPOSITORY = Path(__file__).parents[3]


def install(config: Path, command: str, *args: str, recipe: str = "boxed") -> None:
    """A manifest in the user's folder."""
    folder = config / "lemonade/backends"
    folder.mkdir(parents=True, exist_ok=True)
    platforms = {"linux": {"cpu": {"command": command, "args": list(args)}}}
    path = folder / f"{recipe}.json"
    path.write_text(json.dumps(make_document(recipe=recipe, platforms=platforms)))
    path.chmod(0o644)


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


def doctor(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    code = run(["doctor", "--port", "1", "--json"])
    checks: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert code == (0 if all(check["ok"] for check in checks) else 1)
    assert all(check["ok"] or check["fix"] for check in checks)
    return checks


def failed(checks: list[dict[str, Any]]) -> list[str]:
    return [f"{check['check']}: {check['found']}" for check in checks if not check["ok"]]


# --- which containers are looked at


def test_without_containers_nothing_is_found(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:  # C17
    monkeypatch.setenv("DOCKER_HOST", "http+docker://nonsense")
    monkeypatch.setenv("CONTAINER_HOST", "unix:///no/such.sock")
    install(config, "true", recipe="native")
    assert not failed(doctor(capsys))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not [check for check in doctor(capsys) if check["check"] in {"podman", "docker"}]


def test_a_program_that_nothing_asks_for_is_no_finding(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "docker").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    (check,) = (check for check in doctor(capsys) if check["check"] == "docker")
    assert (check["ok"], check["found"]) == (True, f"{tmp_path}/docker is there, and nothing asks for it")


def test_the_containers_of_models_are_looked_at_once(
    config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    args = ("run", "-p", "{port}:{port}", "--device", "/dev/no-kfd", "--pull=never", "a/{model_name}:1")
    install(config, "docker", "-H", f"unix://{tmp_path}/s", *args)
    for model in ("one", "two"):
        assert run(["register", model, "--recipe", "boxed"]) == 0
    with daemon(tmp_path / "s", DOCKER, {"/images/a/user.one:1/json": {}}):
        checks = doctor(capsys)

    assert failed(checks) == [
        "recipe boxed: /dev/no-kfd does not exist",
        "recipe boxed: docker does not have a/user.two:1, and '--pull=never' forbids to fetch it",
    ]
    names = {check["check"]: check["found"] for check in checks}
    assert names["model user.one"] == "boxed would run a/user.one:1 by docker (platforms.linux.cpu)"
    assert names["docker"].startswith(f"unix://{tmp_path}/s (--host) answers: API 1.45")


def test_a_manifest_is_looked_at_before_a_model_is_registered(
    config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    args = (
        "run",
        "-v",
        "{hf_cache}:/m",
        "-v",
        "/no/such:/n",
        "-e",
        "A={ctx_size}",
        "x:{model_name}",
        "{custom_args}",
    )
    install(config, "docker", "-H", f"unix://{tmp_path}/none", *args)

    assert failed(doctor(capsys)) == [
        f"docker: does not answer: unix://{tmp_path}/none (--host): there is no such file",
        "recipe boxed: /no/such does not exist: docker makes an empty folder of root there",
    ]


def test_a_command_line_that_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(config, "podman", "run", "--no-such-flag", "i")

    (found,) = failed(doctor(capsys))
    assert found.startswith("recipe boxed: podman run: unknown flag '--no-such-flag'")


@pytest.mark.parametrize(
    "args", [("ps",), ("run", "--device", "/dev/no-kfd", "oci:i"), ("run", "{custom_args}", "i")]
)
def test_what_is_no_container_of_ours_is_passed_over(
    config: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    install(config, "podman", *args)

    assert all("no-kfd" not in found for found in failed(doctor(capsys)))


def test_a_stopped_daemon(config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:  # C17
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{tmp_path}/s")
    install(config, "docker", "-H", f"unix://{tmp_path}/s", "run", "i")

    assert failed(doctor(capsys)) == [
        f"docker: does not answer: unix://{tmp_path}/s (--host): nobody listens on it: it is stale"
    ]


# --- another user


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


def other_user() -> User:
    """Nobody where root runs the tests, else who runs them."""
    return User(uid=NOBODY, gid=NOBODY) if os.geteuid() == 0 else this_user()


AS_NOBODY = """
import contextlib, io, os, sys
from lemonpod.cli.app import run
who, config, *arguments = int(sys.argv[1]), *sys.argv[2:]
with contextlib.redirect_stdout(io.StringIO()):
    run(arguments)  # so that all is imported: nobody may be unable to read this Python
for folder, _, files in os.walk(config):
    for name in (".", *files):
        os.chown(os.path.join(folder, name), who, who)
os.setgroups([])
os.setresgid(who, who, who)
os.setresuid(who, who, who)
sys.exit(run(arguments))
"""


def doctor_of_other_user(folder: Path) -> list[dict[str, Any]]:
    """The findings of a `lemonpod doctor` that another user runs."""
    env = {"PATH": os.environ["PATH"], "HOME": f"{folder}/home", "XDG_CONFIG_HOME": f"{folder}/config"}
    env["PYTHONPATH"] = str(REPOSITORY)
    program = ["-c", AS_NOBODY, str(NOBODY), f"{folder}/config"] if os.geteuid() == 0 else ["-m", "lemonpod"]
    line = [sys.executable, *program, "doctor", "--port", "1", "--json"]
    done = subprocess.run(line, cwd="/", env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    return [check for check in json.loads(done.stdout) if not check["ok"]]


def test_a_socket_without_permission(folder: Path) -> None:  # C17
    install(folder / "config", "docker", "-H", f"unix://{folder}/s", "run", "i")
    with daemon(folder / "s", DOCKER):
        (folder / "s").chmod(0o660 if os.geteuid() == 0 else 0)
        if os.geteuid() == 0:
            os.chown(folder / "s", 0, 4242)
        (check,) = (c for c in doctor_of_other_user(folder) if c["check"] == "docker")

    assert f"UID {other_user().uid} may not connect, its mode is 0" in check["found"]
    if os.geteuid() == 0:
        assert check["fix"] == "sudo usermod -aG 4242 nobody, then log in again"


def test_a_device_that_the_user_may_not_open(folder: Path) -> None:  # C11
    user = other_user()
    nodes = (node for node in device_nodes("/dev", Path("/")) if not node.may_open(user))
    node = next(nodes, None)
    if node is None:
        pytest.skip("every device of this machine is open to this user: run the tests as another one")
    install(folder / "config", "podman", "--url", f"unix://{folder}/none", "run", "--device", node.path, "i")

    found = [c for c in doctor_of_other_user(folder) if c["check"] == "recipe boxed"]
    assert [c["found"] for c in found] == [f"{node} may not be opened by {user.name}"]
    assert user.name in found[0]["fix"]


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root becomes a user without ranges; run the tests as root"
)
def test_rootless_without_ranges_of_ids(folder: Path) -> None:
    install(folder / "config", "podman", "--url", f"unix://{folder}/none", "run", "i")

    found = [c for c in doctor_of_other_user(folder) if c["check"] == "podman, rootless"]
    (ranges,) = (c for c in found if "/etc/subuid" in c["found"])
    assert ranges["found"].startswith("nobody has no ids in /etc/subuid and no ids in /etc/subgid")
    assert ranges["fix"].startswith("sudo usermod --add-subuids ")
