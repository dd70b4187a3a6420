"""A server is killed; the next one clears away what it left, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import pytest

from lemonpod.broker.ports import PortBroker
from lemonpod.drivers import tree
from lemonpod.drivers.process import ProcessDriver
from lemonpod.drivers.state import EngineRecord
from tests.engines.conftest import SETTINGS, Start, shell_plan
from tests.engines.manager import PLANS
from tests.fake_engine import ROOT
from tests.waiting import alive, carriers, until

ENDED = ("launcher", "outlived")
"""Plans whose own process has ended before their server is killed."""


def killed_server(state: Path, how: str) -> tuple[str, int]:
    """The run id and the pid of the engine that a server left when it got SIGKILL."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.engines.manager", str(state), how],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    run, pid = server.stdout.readline().split()
    server.kill()
    server.communicate()
    return run, int(pid)


def read(path: Path) -> str:
    return path.read_text()


def next_server(state: Path) -> ProcessDriver:
    return ProcessDriver(state, dict(os.environ), SETTINGS)


@pytest.mark.parametrize("how", [how for how in PLANS if how not in ENDED])
async def test_the_next_server_ends_what_a_killed_one_left(how: str, tmp_path: Path) -> None:
    run, pid = killed_server(tmp_path / "state", how)
    assert alive(pid)
    assert pid in carriers(run)
    (line,) = await next_server(tmp_path / "state").reclaim()
    assert line.startswith(f"ended the engine of user.m (pid {pid}, port ")
    assert carriers(run) == []
    assert not alive(pid)
    assert os.listdir(tmp_path / "state") == []
    assert list(await next_server(tmp_path / "state").reclaim()) == []


async def test_what_a_launcher_left_is_found_by_its_marker(tmp_path: Path) -> None:
    run, pid = killed_server(tmp_path / "state", "launcher")
    assert not alive(pid)
    assert carriers(run)
    (line,) = await next_server(tmp_path / "state").reclaim()
    assert "ended the engine of user.m" in line
    assert carriers(run) == []


async def test_a_torn_record_is_made_up_for_by_the_marker(tmp_path: Path) -> None:
    run, pid = killed_server(tmp_path / "state", "plain")
    record = tmp_path / "state" / f"engines-{run}.json"
    os.truncate(record, 20)
    lines = await next_server(tmp_path / "state").reclaim()
    (line,) = lines
    assert re.fullmatch(rf"ended an engine with process(es)? {pid}(, \d+)*, left by an earlier run", line)
    assert not alive(pid)


async def test_the_stop_command_is_given_its_chance(tmp_path: Path) -> None:
    _, pid = killed_server(tmp_path / "state", "stop-command")
    await next_server(tmp_path / "state").reclaim()
    assert read(Path(os.environ["HOME"], "stopped")) == f"{pid}\n"


@pytest.mark.parametrize("leased", [False, True])
async def test_what_outlived_its_process_is_stopped_too(tmp_path: Path, leased: bool) -> None:  # C01
    """Unless another server has an engine on that port by now, of the same name then."""
    state = tmp_path / "state"
    run, _ = killed_server(state, "outlived")
    port = json.loads(read(state / f"engines-{run}.json"))[0]["port"]
    with PortBroker(port, port).lease_held(port) if leased else nullcontext():
        assert list(await next_server(state).reclaim()) == []
    assert ("stopped" in os.listdir(os.environ["HOME"])) is not leased
    assert os.listdir(state) == []


async def test_a_recycled_pid_is_a_stranger(tmp_path: Path) -> None:  # L25
    """The record's pid now belongs to a process that was created at another time."""
    stranger = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    try:
        record = EngineRecord(
            number=1,
            model="m",
            pid=stranger.pid,
            create_time=(tree.created(stranger.pid) or 0.0) - 100.0,
            port=8001,
            stop=("kill", "-9", str(stranger.pid)),
        )
        state = tmp_path / "state"
        state.mkdir()
        (state / "engines-dead.json").write_text(json.dumps([asdict(record)]))
        assert list(await next_server(state).reclaim()) == []
        assert alive(stranger.pid)
        assert os.listdir(state) == []
    finally:
        stranger.kill()
        await stranger.wait()


async def test_engines_of_a_living_server_are_left_alone(
    driver: ProcessDriver, create: Start, tmp_path: Path
) -> None:
    engine = create(shell_plan("sleep 300"))
    await engine.start()
    pid = (await engine.inspect()).pid
    assert list(await next_server(tmp_path / "state").reclaim()) == []
    assert list(await driver.reclaim()) == []
    assert pid
    assert alive(pid)


async def test_two_servers_that_start_together_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    run, pid = killed_server(tmp_path / "state", "plain")
    lines = await asyncio.gather(*(next_server(tmp_path / "state").reclaim() for _ in range(2)))
    assert sum(map(len, lines)) == 1
    await until(lambda: not alive(pid))
    assert carriers(run) == []


async def test_no_state_folder_is_nothing_to_reclaim(tmp_path: Path) -> None:
    assert list(await next_server(tmp_path / "none").reclaim()) == []
    assert not os.path.exists(tmp_path / "none")  # noqa: ASYNC240  no other task waits


async def test_who_ends_a_server_that_is_clearing_away_does_not_wait_for_it(tmp_path: Path) -> None:
    run, _ = killed_server(tmp_path / "state", "deaf")
    at_once = asyncio.Event()
    clearing = asyncio.create_task(next_server(tmp_path / "state").reclaim(at_once=at_once))
    await until(lambda: len(carriers(run)) == 2)  # the engine, and its stop command
    at_once.set()
    async with asyncio.timeout(SETTINGS.stop_command_timeout / 2):
        assert len(await clearing) == 1
    assert carriers(run) == []
