"""A server is killed; its containers live on, and the next one goes on with them or clears them away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lemonpod.drivers.container import ContainerDriver
from lemonpod.engine.api import Adoptable
from lemonpod.engine.probe import until_ready
from tests.engines.container_manager import plan_of
from tests.engines.containers import SETTINGS, container_driver
from tests.fake_engine import ROOT
from tests.lab.engine import ContainerEngine
from tests.lab.lab import Lab
from tests.waiting import alive, until, unused_port


def killed_server(state: Path, runtime: str, port: int, *, url: str = "", **environ: str) -> int:
    """The pid of the engine that a server left when it got SIGKILL."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.engines.container_manager", str(state), url, runtime, str(port)],
        cwd=ROOT,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    pid = int(server.stdout.readline())
    server.kill()
    server.communicate()
    return pid


async def test_the_next_server_goes_on_with_what_runs(engine: ContainerEngine, tmp_path: Path) -> None:
    port, state = unused_port(), tmp_path / "state"
    pid = killed_server(state, engine.runtime, port, url=engine.url)
    assert alive(pid)
    driver = container_driver(engine, state)
    assert list(await driver.reclaim()) == []
    plan = plan_of(engine.runtime, port, engine.url)
    expected = Adoptable(model="user.m", port=port, overrides={"ctx_size": 4096}, digest=plan.digest)
    assert list(driver.adoptable()) == [expected]
    taken = driver.create(plan)
    await taken.prepare(print)
    await taken.start()
    assert list(await driver.settle()) == []
    await until_ready(taken)
    assert (await taken.inspect()).pid == pid
    await until(lambda: taken.log_tail(1) == ("engine started",))
    assert ((await taken.stats()).memory_bytes or 0) > 0
    assert (await taken.stop(grace=5.0)).wanted
    assert not alive(pid)
    assert engine.containers() == []
    await driver.aclose()
    assert os.listdir(state) == ["instance"]


async def test_what_is_not_wanted_any_more_is_ended(engine: ContainerEngine, tmp_path: Path) -> None:  # C01
    port, state = unused_port(), tmp_path / "state"
    pid = killed_server(state, engine.runtime, port, url=engine.url)
    driver = container_driver(engine, state)
    assert list(await driver.reclaim()) == []
    (line,) = await driver.settle()
    assert line == (
        f"ended the engine of user.m (container lemonpod-test-{port}, port {port}), left by an earlier run"
    )
    assert not alive(pid)
    assert engine.containers() == []
    await driver.aclose()


async def test_what_died_with_its_server_gives_its_name_away(
    engine: ContainerEngine, tmp_path: Path
) -> None:  # C01
    port, state = unused_port(), tmp_path / "state"
    killed_server(state, engine.runtime, port, url=engine.url)
    engine.run_cli("kill", f"lemonpod-test-{port}")
    driver = container_driver(engine, state)
    again = driver.create(plan_of(engine.runtime, port, engine.url))
    await again.start()
    await until_ready(again)
    await again.stop(grace=5.0)
    assert engine.containers() == []
    await driver.aclose()


@pytest.fixture
def run_folder() -> Iterator[Path]:
    """A short path: that of a socket has 107 bytes."""
    with TemporaryDirectory(prefix="run-") as folder:
        yield Path(folder)


async def test_podman_without_a_service_gets_one_that_ends_with_its_server(
    lab: Lab, tmp_path: Path, run_folder: Path
) -> None:
    engine = lab.engine("podman4")
    port, state = unused_port(), tmp_path / "state"
    environ = {"PATH": engine.env["PATH"], "XDG_RUNTIME_DIR": str(run_folder), "HOME": str(tmp_path)}

    def services() -> list[int]:
        return services_below(run_folder)

    try:
        pid = killed_server(state, "podman", port, **environ)
        await until(lambda: not services())
        assert alive(pid)
        driver = ContainerDriver(state, environ, SETTINGS)
        await driver.reclaim()
        taken = driver.create(plan_of("podman", port, None))
        await taken.start()
        await driver.settle()
        await until_ready(taken)
        (service,) = services()
        os.kill(service, signal.SIGKILL)
        await until(lambda: services() and service not in services() and taken.trouble is None)
        assert (await taken.inspect()).pid == pid
        await taken.stop(grace=5.0)
        await driver.aclose()
        assert not alive(pid)
        assert services() == []
        assert os.listdir(run_folder) == []
    finally:
        engine.remove_test_containers()


def services_below(folder: Path) -> list[int]:
    """The living services that were told to listen there; what they are tethered to is none."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and alive(int(entry)):
            try:
                command = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if b"unix://" + os.fsencode(folder) in command and b"tether.py" not in command:
                found.append(int(entry))
    return found
