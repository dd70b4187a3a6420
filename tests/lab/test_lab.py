"""The lab itself: what it promises to the tests that use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.lab.engine import ContainerEngine
from tests.lab.images import TINY
from tests.lab.lab import Lab
from tests.lab.random_image import put_random_image
from tests.lab.registry import PASSWORD, USER, Registry, slowed
from tests.lab.waiting import wait_until
from tests.tiny_model import write_tiny_gguf
from tests.users import open_folder
from tests.waiting import unused_port

VERSIONS = {
    "podman4": "4.",
    "podman4-rootless": "4.",
    "podman5": "5.",
    "docker20": "20.",
    "docker26": "26.",
}


def healthy(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_an_engine_is_the_one_it_is_called(engine: ContainerEngine) -> None:
    assert engine.version.startswith(VERSIONS[engine.name])
    assert engine.rootless == (engine.name == "podman4-rootless")


@pytest.mark.parametrize("network", ["host", "published"])
def test_a_container_answers_on_loopback(engine: ContainerEngine, network: str) -> None:
    port = unused_port()
    where = ("--network=host",) if network == "host" else (f"-p=127.0.0.1:{port}:{port}",)
    engine.run_cli("run", "-d", *where, TINY, "httpd", "-f", "-p", str(port), "-h", "/www")
    wait_until(lambda: healthy(port), "an answer of the container")


def test_a_real_llama_server_in_a_container(engine: ContainerEngine, lab: Lab) -> None:
    port = unused_port()
    with open_folder() as folder:
        write_tiny_gguf(folder / "tiny.gguf")
        serve = ("llama-server", "-m", "/models/tiny.gguf", "--port", str(port))
        mount = f"{folder}:/models:ro"
        engine.run_cli("run", "-d", "--network=host", "-v", mount, lab.llama(engine), *serve)
        wait_until(lambda: healthy(port), "an answer of llama.cpp")
        engine.remove_test_containers()


def test_its_program_works_where_the_caller_is(engine: ContainerEngine) -> None:
    with open_folder() as folder:
        (folder / "settings").write_text("A=of the file\n")
        words = ("run", "--rm", "--env-file", "settings", "-e", "B", "-v", f"{folder}:/data:ro", TINY)
        script = "echo $A $B; cat /data/settings"
        done = engine.try_cli(*words, "sh", "-c", script, cwd=folder, env={"B": "of mine"})
    assert done.stdout.splitlines() == ["of the file of mine", "A=of the file"], done.stderr


def test_containers_outlive_a_service_that_stops_and_comes_back(engine: ContainerEngine) -> None:
    port = unused_port()
    name = "lemonpod-test-outlives"
    engine.run_cli(
        "run", "-d", "--name", name, "--network=host", TINY, "httpd", "-f", "-p", str(port), "-h", "/www"
    )
    wait_until(lambda: healthy(port), "an answer of the container")
    engine.stop_service()
    with pytest.raises(OSError):
        engine.containers()
    assert healthy(port)
    engine.start_service()
    assert [container["State"] for container in engine.containers()] == ["running"]


def test_images_go_to_a_registry_and_come_back(engine: ContainerEngine, registry: Registry) -> None:
    pushed = registry.push(engine, TINY, f"{engine.name}:1")
    by_digest = f"{registry.address}/{engine.name}@{registry.digest(f'{engine.name}:1')}"
    for reference in (pushed, by_digest):
        engine.run_cli("pull", reference)
        engine.run_cli("rmi", reference)


def test_a_registry_that_wants_a_login(engine: ContainerEngine, login_registry: Registry) -> None:
    reference = f"{login_registry.address}/tiny:1"
    engine.run_cli("tag", TINY, reference)
    with open_folder() as folder:
        folder.chmod(0o777)
        login = {"DOCKER_CONFIG": str(folder), "REGISTRY_AUTH_FILE": str(folder / "auth.json")}
        given = ("login", "-u", USER, "-p", PASSWORD, login_registry.address)
        assert engine.try_cli("push", reference, env=login).returncode != 0
        engine.try_cli(*given, env=login).check_returncode()
        engine.try_cli("push", reference, env=login).check_returncode()
    engine.run_cli("rmi", reference)


def test_a_pull_from_a_slow_registry_takes_its_time(engine: ContainerEngine, registry: Registry) -> None:
    image = put_random_image(registry, "random:1", megabytes=2)
    with slowed(registry, 1000) as slow, pytest.raises(subprocess.TimeoutExpired):
        engine.run_cli("pull", image.replace(registry.address, slow.address), timeout=1)
    engine.run_cli("pull", image)
    engine.run_cli("rmi", image)


@pytest.mark.usefixtures("lab")
def test_a_second_run_has_another_lab_and_leaves_nothing() -> None:
    script = """
from pathlib import Path
from tests.lab.lab import lab_of_a_run
from tests.lab.space import processes_in
with lab_of_a_run() as lab:
    engine = lab.engine("podman4")
    engine.run_cli("run", "-d", "localhost/lemonpod-test/tiny", "sleep", "1000")
    assert len(processes_in(lab.folder)) >= 3
assert processes_in(lab.folder) == [] and not lab.folder.exists()
assert str(lab.folder) not in Path("/proc/mounts").read_text()
"""
    subprocess.run((sys.executable, "-c", script), check=True, cwd=Path(__file__).parents[2])


@pytest.mark.usefixtures("lab")
def test_what_a_killed_run_left_is_cleaned_by_the_next() -> None:
    start = """
import os, signal
from tests.lab.lab import lab_of_a_run
with lab_of_a_run() as lab:
    engine = lab.engine("docker20")
    engine.run_cli("run", "-d", "localhost/lemonpod-test/tiny", "sleep", "1000")
    print(lab.folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    again = """
from tests.lab.lab import lab_of_a_run
with lab_of_a_run() as lab:
    pass
"""
    root = Path(__file__).parents[2]
    done = subprocess.run((sys.executable, "-c", start), stdout=subprocess.PIPE, text=True, cwd=root)
    folder = Path(done.stdout.strip())
    assert folder.exists()
    subprocess.run((sys.executable, "-c", again), check=True, cwd=root)
    assert not folder.exists()
