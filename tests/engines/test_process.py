"""The process driver with real processes that behave badly."""

# Long because it holds everything that one process engine does, from spawn to the last descendant.

from __future__ import annotations

import asyncio
import errno
import os
import re
import shlex
import signal
import socket
import sys
import time
from contextlib import aclosing, suppress
from pathlib import Path

import psutil
import pytest

from lemonpod.broker.ports import is_free
from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.vocabulary import ProbeType
from lemonpod.drivers.process import ProcessDriver, ProcessEngine
from lemonpod.drivers.state import RunFile
from lemonpod.engine.api import EngineState, ExitStatus
from lemonpod.engine.probe import until_ready
from lemonpod.errors import EngineError, EngineExitedError, SpawnError, StartTimeoutError
from tests.engines.conftest import SETTINGS, Start, fake_plan, shell_plan, stop_spec
from tests.factories import make_plan
from tests.fake_engine import ROOT, TINY_ENGINE, fake_engine_argv
from tests.waiting import alive, carriers, until, unused_port

SLEEP = "import time; time.sleep(600)"


async def lines(engine: ProcessEngine) -> list[str]:
    return [line.text async for line in engine.logs()]


async def wait_for_line(engine: ProcessEngine, word: str) -> str:
    async for line in engine.logs(follow=True):
        if word in line.text:
            return line.text
    raise AssertionError(f"the engine ended without a line with {word!r}")


# --- L01: trees -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        "sleep 300 & exec sleep 300",
        "setsid sleep 300 & exec sleep 300",
        "(setsid sh -c 'sleep 300 & sleep 300' &) ; exec sleep 300",
        "setsid sh -c 'nohup sleep 300 >/dev/null 2>&1 &' ; sleep 300",
        "env -i sleep 300 & sleep 300",
        "sh -c 'sh -c \"sleep 300; true\"; true'; true",
    ],
)
async def test_stop_ends_the_whole_tree(script: str, create: Start, driver: ProcessDriver) -> None:  # L01
    engine = create(shell_plan(script))
    await engine.start()
    await until(lambda: len(carriers(driver.run)) >= 1)
    status = await engine.stop(grace=2.0)
    assert status.wanted
    assert carriers(driver.run) == []


async def test_an_exit_is_told_although_a_grandchild_holds_the_pipe(
    create: Start, driver: ProcessDriver
) -> None:  # L01
    engine = create(shell_plan("sleep 30 & echo bye; exit 7"))
    await engine.start()
    status = await asyncio.wait_for(engine.wait(), 10)
    assert (status.code, status.wanted) == (7, False)
    assert await lines(engine) == ["bye"]
    assert status.left_behind
    # "sh" for as long as the child has not become what it is to run.
    assert re.fullmatch(r"exited with code 7 and left (sleep|sh) \(pid \d+\) behind", str(status))
    await engine.stop(grace=2.0)
    assert carriers(driver.run) == []


async def test_a_launcher_that_exits_after_forking_the_server_is_an_exit(create: Start) -> None:  # L01
    engine = create(shell_plan("sleep 30 >/dev/null 2>&1 & exit 0"))
    await engine.start()
    with pytest.raises(EngineExitedError, match=r"code 0 and left (sleep|sh) \(pid \d+\) behind before"):
        await until_ready(engine)


async def test_a_server_that_detached_itself_is_found_by_its_marker(create: Start) -> None:  # L01
    engine = create(fake_plan("--fork-and-exit"))
    await engine.start()
    status = await engine.wait()
    assert status.code == 0
    await engine.stop(grace=2.0)  # and the driver's fixture sees that nothing is left


async def test_who_forks_in_the_moment_of_dying_leaves_nobody(
    create: Start, driver: ProcessDriver
) -> None:  # L01
    async def live_and_die() -> None:
        port = unused_port()
        engine = create(make_plan(*TINY_ENGINE, str(port), "child", "die=0", port=port))
        await engine.start()
        await engine.stop(grace=1.0)

    for _ in range(10):
        await asyncio.gather(*(live_and_die() for _ in range(4)))
        assert carriers(driver.run) == []


async def test_a_grandchild_that_ignores_term_is_killed(create: Start, driver: ProcessDriver) -> None:  # L01
    engine = create(fake_plan("--spawn-child", "--child-ignores-sigterm"))
    await engine.start()
    child = int((await wait_for_line(engine, "child")).split()[1])
    await until_ready(engine)
    await engine.stop(grace=0.3)
    assert not alive(child)


# --- L03: stubborn engines --------------------------------------------------------------------------------


@pytest.mark.parametrize("script", ["trap '' TERM INT; echo up; while :; do sleep 1; done", None])
async def test_an_engine_that_ignores_term_is_killed_after_the_grace(
    script: str | None, create: Start
) -> None:  # L03
    engine = create(shell_plan(script) if script else fake_plan("--ignore-sigterm"))
    await engine.start()
    await wait_for_line(engine, "up" if script else "listening")
    started = time.monotonic()
    status = await engine.stop(grace=0.3)
    assert (status.signal, status.wanted) == (signal.SIGKILL, True)
    assert time.monotonic() - started < 5


async def test_a_stopped_process_is_ended_too(create: Start) -> None:
    engine = create(make_plan("sleep", "300", port=unused_port()))
    await engine.start()
    pid = (await engine.inspect()).pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    assert (await engine.stop(grace=0.2)).wanted


async def test_a_second_stop_hurries_the_first(create: Start) -> None:
    engine = create(fake_plan("--ignore-sigterm"))
    await engine.start()
    await wait_for_line(engine, "listening")
    patient = asyncio.create_task(engine.stop(grace=300.0))
    await asyncio.sleep(0)
    status = await asyncio.wait_for(engine.stop(grace=0.0), 10)
    assert await patient == status


async def test_a_cancelled_caller_does_not_end_the_stopping(create: Start) -> None:
    engine = create(fake_plan("--ignore-sigterm"))
    await engine.start()
    await wait_for_line(engine, "listening")
    first = asyncio.create_task(engine.stop(grace=0.3))
    await asyncio.sleep(0.05)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    status = await engine.wait()
    assert status.wanted


async def test_cancelling_a_start_leaves_nothing(create: Start, driver: ProcessDriver) -> None:
    for _ in range(5):
        engine = create(shell_plan("sleep 300 & sleep 300"))
        starting = asyncio.create_task(engine.start())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert carriers(driver.run) == []


# --- L05, L11: whose port, which address ------------------------------------------------------------------


async def test_a_stranger_on_the_port_never_passes_for_the_engine(create: Start) -> None:  # L05
    port = unused_port()
    stranger = await asyncio.create_subprocess_exec(*fake_engine_argv("--port", port), cwd=ROOT, stdout=-3)
    await until(lambda: not is_free("127.0.0.1", port))
    try:
        engine = create(fake_plan("--bind-failure-ignored", port=port))
        await engine.start()
        with pytest.raises(
            EngineError, match=rf"port {port} is answered by python\S* \(pid {stranger.pid}\)"
        ):
            await until_ready(engine)
        await engine.stop(grace=1.0)  # the stranger was there before: its port is not our concern
        assert stranger.returncode is None
    finally:
        stranger.kill()
        await stranger.wait()


async def test_nor_does_one_that_is_closer_to_the_address(create: Start) -> None:  # L05
    """Ours listens on the wildcard of the other family, the stranger where we connect to."""
    port = unused_port()
    with socket.create_server(("127.0.0.1", port)):
        engine = create(fake_plan("--host", "::1", port=port, probe=HealthProbe(type=ProbeType.TCP)))
        await engine.start()
        await wait_for_line(engine, "listening")
        with pytest.raises(EngineError, match=rf"port {port} is answered by .*\(pid {os.getpid()}\)"):
            await until_ready(engine)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
async def test_every_address_that_answers_there_is_ours(host: str, create: Start) -> None:  # L11
    engine = create(fake_plan("--host", host))
    await engine.start()
    await until_ready(engine)


async def test_a_server_in_a_grandchild_counts_as_the_engine(create: Start) -> None:  # L05
    port = unused_port()
    server = " ".join(fake_engine_argv("--port", port))
    engine = create(shell_plan(f"{server} & wait", port=port, cwd=ROOT))
    await engine.start()
    await until_ready(engine)


async def test_a_daemon_that_escaped_with_the_port_is_named(create: Start) -> None:  # L01
    """Own session, no marker, its parent gone before anybody looked: all that is left to see is its port."""
    port = unused_port()
    server = shlex.join([*TINY_ENGINE, str(port)])
    engine = create(shell_plan(f"(env -i setsid {server} >/dev/null 2>&1 &) ; sleep 300", port=port))
    await engine.start()
    await until(lambda: not is_free("127.0.0.1", port))
    for _ in range(2):
        with pytest.raises(
            EngineError, match=rf"has ended, but python\S* \(pid \d+\) holds its port {port}"
        ) as e:
            await engine.stop(grace=1.0)
    os.kill(int(re.findall(r"pid (\d+)", str(e.value))[0]), signal.SIGKILL)
    assert (await engine.stop(grace=1.0)).wanted


async def test_a_plan_that_cannot_be_checked_is_believed(create: Start) -> None:
    port = unused_port()
    stranger = await asyncio.create_subprocess_exec(*fake_engine_argv("--port", port), cwd=ROOT, stdout=-3)
    try:
        engine = create(make_plan("sleep", "300", port=port, peer_checked=False))
        await engine.start()
        await until_ready(engine)
    finally:
        stranger.kill()
        await stranger.wait()


async def test_a_timeout_tells_where_the_engine_listens_instead(create: Start) -> None:  # L11
    engine = create(fake_plan("--host", "::1", probe=HealthProbe(timeout=1.0, interval=0.05)))
    await engine.start()
    port = engine.plan.endpoint.port
    with pytest.raises(StartTimeoutError) as caught:
        await until_ready(engine)
    assert f"nothing takes connections at 127.0.0.1:{port}; the engine listens on [::1]:{port}" in str(
        caught.value
    )
    assert caught.value.log_tail[-1] == f"listening on ::1:{port}"


async def test_a_timeout_tells_what_the_probe_got(create: Start) -> None:  # L11
    probe = HealthProbe(endpoint="/wrong place", timeout=0.5, interval=0.05)
    engine = create(fake_plan(probe=probe))
    await engine.start()
    with pytest.raises(
        StartTimeoutError, match=r"GET http://127\.0\.0\.1:\d+/wrong%20place got status 404, not 200"
    ):
        await until_ready(engine)


async def test_readiness_may_come_late(create: Start) -> None:
    engine = create(fake_plan("--ready-after", "0.4", "--ready-status", "503"))
    await engine.start()
    await wait_for_line(engine, "listening")
    assert not await engine.probe()
    assert "got status 503, not 200; the engine listens on 127.0.0.1:" in await engine.diagnose()
    await until_ready(engine)


async def test_an_engine_that_never_listens_is_told_so(create: Start) -> None:
    engine = create(fake_plan("--no-listen", probe=HealthProbe(timeout=0.3, interval=0.05)))
    await engine.start()
    with pytest.raises(StartTimeoutError, match=r"not ready after 0\.3 s: .*; the engine listens on no port"):
        await until_ready(engine)


# --- L09: fail fast ---------------------------------------------------------------------------------------


async def test_an_engine_that_takes_connections_and_never_answers_times_out(create: Start) -> None:  # L09
    engine = create(fake_plan("--accept-but-silent", probe=HealthProbe(timeout=1.0, interval=0.05)))
    await engine.start()
    with pytest.raises(
        StartTimeoutError, match=r"not ready after 1 s: .* did not answer within [01]\.\d s; "
    ):
        await until_ready(engine)


async def test_a_probe_that_is_given_up_says_what_it_waited_for(create: Start) -> None:
    """As the watchdog does: it is not what the probes before the engine was ready have found."""
    engine = create(fake_plan("--accept-but-silent"))
    await engine.start()
    with suppress(TimeoutError):
        while not await asyncio.wait_for(engine.probe(), 0.5):
            assert "nothing takes connections" in await engine.diagnose()
    assert re.match(
        r"http://127\.0\.0\.1:\d+ did not answer within 0\.\d s; the engine", await engine.diagnose()
    )


async def test_a_probe_that_is_given_up_at_once_says_nothing(create: Start) -> None:
    engine = create(fake_plan("--ready-after", "300"))
    await engine.start()
    while not (await engine.diagnose()).count("got status 503"):
        await engine.probe()
    asking = asyncio.create_task(engine.probe())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    assert "got status 503" in await engine.diagnose()


async def test_an_exit_is_noticed_while_a_probe_hangs(
    create: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # L09
    """A grandchild holds its connection, so that nothing but the exit ends it."""
    monkeypatch.setattr("lemonpod.engine.probe.ANSWER_TIMEOUT", 300.0)
    port, go_on = unused_port(), tmp_path / "go"
    server = shlex.join(fake_engine_argv("--port", port, "--accept-but-silent"))
    script = f"echo starting; {server} & while [ ! -e {go_on} ]; do sleep 0.05; done; exit 4"
    probe = HealthProbe(timeout=300.0, interval=0.02)
    engine = create(shell_plan(script, port=port, cwd=ROOT, probe=probe))
    await engine.start()
    waiting = asyncio.create_task(until_ready(engine))
    await until(lambda: is_connected(port))
    go_on.touch()
    with pytest.raises(EngineExitedError, match="exited with code 4") as caught:
        await asyncio.wait_for(waiting, 10)
    assert caught.value.exit_code == 4
    assert caught.value.log_tail[0] == "starting"


def is_connected(port: int) -> bool:
    """Somebody has a connection to the port of this machine."""
    return any(
        one.status == psutil.CONN_ESTABLISHED and one.laddr and one.laddr.port == port
        for one in psutil.net_connections("tcp4")
    )


async def test_a_signal_is_named(create: Start) -> None:  # L09
    engine = create(shell_plan("echo dying; kill -SEGV $$; sleep 5"))
    await engine.start()
    with pytest.raises(EngineExitedError, match=r"was killed by signal 11 \(SIGSEGV\) before") as caught:
        await until_ready(engine)
    assert (caught.value.signal, caught.value.log_tail) == (signal.SIGSEGV, ("dying",))


async def test_a_process_probe_sees_an_engine_that_ends_at_once(create: Start) -> None:
    engine = create(make_plan("false", port=1, probe=HealthProbe(type=ProbeType.PROCESS, interval=0.02)))
    await engine.start()
    with pytest.raises(EngineExitedError, match="exited with code 1"):
        await until_ready(engine)


async def test_a_process_probe_is_content_with_survival(create: Start) -> None:
    engine = create(
        make_plan("sleep", "300", port=1, probe=HealthProbe(type=ProbeType.PROCESS, interval=0.02))
    )
    await engine.start()
    assert not await engine.probe()
    await until_ready(engine)


async def test_a_redirect_is_not_followed(create: Start) -> None:  # H13
    engine = create(fake_plan(probe=HealthProbe(endpoint="/moved", timeout=0.5, interval=0.05)))
    await engine.start()
    with pytest.raises(StartTimeoutError, match="got status 302, not 200"):
        await until_ready(engine)


async def test_a_redirect_may_be_what_is_expected(create: Start) -> None:  # H13
    engine = create(fake_plan(probe=HealthProbe(endpoint="/moved", expected_status=302)))
    await engine.start()
    await until_ready(engine)


async def test_a_proxy_in_the_environment_is_not_used(
    create: Start, monkeypatch: pytest.MonkeyPatch
) -> None:  # H35
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    engine = create(fake_plan())
    await engine.start()
    await until_ready(engine)


# --- L13: output ------------------------------------------------------------------------------------------


async def test_any_output_becomes_lines(create: Start) -> None:  # L13
    engine = create(fake_plan("--garbage"))
    await engine.start()
    await until_ready(engine)
    await engine.stop(grace=2.0)
    found = await lines(engine)
    assert found[1].startswith("xxxx")
    assert found[1].endswith("x … [53616 more bytes cut]")
    assert found[2:7] == [
        "loading 1%",
        "loading 2%",
        "loading 100%",
        "\ufffd\ufffd broken",
        "nulbyte and red",
    ]


async def test_a_flood_is_drained_and_bounded(create: Start) -> None:  # L12
    engine = create(fake_plan("--chatty"))
    await engine.start()
    await until_ready(engine)
    first = [line.seq async for line in engine.logs(tail=1)]
    await until(lambda: engine.log_tail(1) != ())
    kept = await lines(engine)
    assert len(kept) <= 5000
    await until(lambda: engine.log_tail(1))
    async with aclosing(engine.logs(follow=True)) as followed:
        async for line in followed:
            if line.seq > first[0] + 20_000:
                break


async def test_the_last_words_without_a_newline_are_kept(create: Start) -> None:  # L12
    engine = create(shell_plan("printf 'fatal: no memory' >&2; exit 1"))
    await engine.start()
    await engine.wait()
    assert engine.log_tail(5) == ("fatal: no memory",)


# --- L15, L25, L27: intent, pids, stop commands -----------------------------------------------------------


async def test_our_own_signal_is_no_crash(create: Start) -> None:  # L15
    engine = create(make_plan("sleep", "300", port=unused_port()))
    await engine.start()
    assert await engine.stop(grace=2.0) == ExitStatus(signal=signal.SIGTERM, wanted=True)
    assert await engine.wait() == ExitStatus(signal=signal.SIGTERM, wanted=True)
    assert await engine.stop(grace=2.0) == await engine.wait()


async def test_an_engine_that_is_gone_gets_no_stop_command(create: Start, tmp_path: Path) -> None:  # L25
    ran = tmp_path / "ran"
    stop = stop_spec("sh", "-c", f"echo {{pid}} > {ran}")
    engine = create(make_plan("true", port=unused_port(), stop=stop))
    await engine.start()
    await engine.wait()
    await engine.stop(grace=1.0)
    assert not ran.exists()


async def test_what_outlives_an_engine_is_stopped_all_the_same(
    create: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:  # C01
    ran = tmp_path / "ran"
    stop = stop_spec("sh", "-c", f"echo $$ >> {ran}; exit 1")
    engine = create(make_plan("true", port=unused_port(), stop=stop))
    await engine.start()
    await engine.wait()
    await engine.stop(grace=1.0)
    assert len(ran.read_text().splitlines()) == 1
    assert "stop command" not in caplog.text  # it may find nothing to stop


async def test_the_pid_stays_ours_until_the_tree_is_gone(create: Start) -> None:  # L25
    engine = create(make_plan("true", port=unused_port()))
    await engine.start()
    status = await engine.wait()
    pid = (await engine.inspect()).pid
    assert pid is not None
    assert psutil.pid_exists(pid)  # a zombie: nobody else can get its pid
    assert (await engine.stop(grace=1.0)) == status
    assert not psutil.pid_exists(pid)


async def test_the_stop_command_gets_the_pid_and_the_environment(
    create: Start, tmp_path: Path
) -> None:  # L27
    said = tmp_path / "said"
    stop = stop_spec("sh", "-c", f"echo {{pid}} $A > {said}; kill -USR1 {{pid}}")
    engine = create(make_plan("sleep", "300", port=unused_port(), stop=stop, env={"A": "b"}))
    await engine.start()
    pid = (await engine.inspect()).pid
    status = await engine.stop(grace=2.0)
    assert said.read_text() == f"{pid} b\n"
    assert (status.signal, status.wanted) == (signal.SIGUSR1, True)


@pytest.mark.parametrize(
    "argv",
    [
        ("/no/such",),
        ("false",),
        ("sh", "-c", "echo sorry; exit 3"),
        ("sh", "-c", "kill -9 $$"),
        ("/",),
        ("true", "\0"),
    ],
)
async def test_a_failing_stop_command_stops_nothing_else_and_is_told(
    argv: tuple[str, ...], create: Start, caplog: pytest.LogCaptureFixture
) -> None:  # L27
    engine = create(make_plan("sleep", "300", port=unused_port(), stop=stop_spec(*argv)))
    await engine.start()
    assert (await engine.stop(grace=2.0)).wanted
    assert "stop command" in caplog.text


async def test_a_stop_command_may_kill_the_engine(
    create: Start, caplog: pytest.LogCaptureFixture
) -> None:  # L27
    engine = create(make_plan("sleep", "300", port=unused_port(), stop=stop_spec("kill", "-9", "{pid}")))
    await engine.start()
    status = await engine.stop(grace=2.0)
    assert (status.signal, status.wanted) == (signal.SIGKILL, True)
    assert caplog.text == ""


async def test_a_hanging_stop_command_is_cut_with_its_tree(
    create: Start, driver: ProcessDriver
) -> None:  # L27
    stop = stop_spec("sh", "-c", "sleep 600 & setsid sleep 600 & sleep 600")
    engine = create(make_plan("sleep", "300", port=unused_port(), stop=stop))
    await engine.start()
    started = time.monotonic()
    await engine.stop(grace=2.0)
    assert time.monotonic() - started < 10
    assert carriers(driver.run) == []


async def test_a_hurried_stop_does_not_wait_for_the_stop_command(create: Start) -> None:
    engine = create(make_plan("sleep", "300", port=unused_port(), stop=stop_spec("sleep", "600")))
    await engine.start()
    patient = asyncio.create_task(engine.stop(grace=5.0))
    await asyncio.sleep(0.05)
    await asyncio.wait_for(engine.stop(grace=0.0), 1.9)
    await patient


# --- L17, L19: the environment, and what cannot be started ------------------------------------------------


async def test_an_engine_gets_nothing_by_default(tmp_path: Path) -> None:  # L19
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/h",
        "LC_ALL": "C.UTF-8",
        "HF_HOME": "/hf",
        "DOCKER_HOST": "unix:///d",
        "LISTEN_PID": "1",
        "LISTEN_FDS": "3",
        "NOTIFY_SOCKET": "/n",
        "WATCHDOG_USEC": "1",
        "JOURNAL_STREAM": "1:2",
        "INVOCATION_ID": "x",
        "LEMONADE_API_KEY": "secret",
        "LEMONADE_HOST": "h",
        "HF_TOKEN": "secret",
        "LC_AUTH": "secret",
        "SSH_AUTH_SOCK": "/s",
        "LD_PRELOAD": "/evil.so",
        "PYTHONPATH": "/p",
        "HTTP_PROXY": "http://u:p@x",
        "LEMONPOD_ENGINE": "forged",
    }
    driver = ProcessDriver(tmp_path / "state", environ, SETTINGS)
    script = "import os; print(sorted((k, v) for k, v in os.environ.items()))"
    engine = driver.create(
        make_plan(sys.executable, "-c", script, port=1, env={"A": "l1\nl2=3", "EMPTY": "", "HOME": "/mine"})
    )
    await engine.start()
    await engine.wait()
    assert dict(eval(engine.log_tail(1)[0])) == {
        "PATH": f"/usr/bin:/bin:{Path(sys.executable).parent}",
        "HOME": "/mine",
        "LC_ALL": "C.UTF-8",
        "HF_HOME": "/hf",
        "DOCKER_HOST": "unix:///d",
        "A": "l1\nl2=3",
        "EMPTY": "",
        "LEMONPOD_ENGINE": f"{driver.run}/1",
    }
    await engine.stop(grace=1.0)
    await driver.aclose()


async def test_an_engine_inherits_no_file_and_no_terminal(create: Start, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        engine = create(shell_plan("ls -l /proc/self/fd; ps -o sid= -p $$; echo $$"))
        await engine.start()
        await engine.wait()
    output = "\n".join(engine.log_tail(20))
    assert "0 -> /dev/null" in output
    assert "secret" not in output
    assert engine.log_tail(2)[0].strip() == engine.log_tail(2)[1]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("no-such-engine",), "cannot start no-such-engine: not found in /"),
        (("/no/such/engine",), "cannot start /no/such/engine: /no/such/engine does not exist"),
        (("{tmp}/plain",), "plain is not executable"),
        (("{tmp}/folder",), "folder is a folder"),
        (("{tmp}/script",), "its interpreter /no/such/interpreter is missing"),
        (("{tmp}/text",), "it is no program for this machine, and no script with a #! line"),
        (("./missing",), "{tmp}/./missing does not exist"),
        (("{tmp}/plain/x",), "plain/x does not exist"),
        (("true", "a\0b"), "embedded null byte in its arguments or environment"),
    ],
)
async def test_what_cannot_be_started_says_why(
    argv: tuple[str, ...], message: str, create: Start, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    for name, text, mode in (
        ("plain", "x", 0o644),
        ("script", "#!/no/such/interpreter\n", 0o755),
        ("text", "just text", 0o755),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    argv = tuple(part.replace("{tmp}", str(tmp_path)) for part in argv)
    engine = create(make_plan(*argv, port=1, cwd=tmp_path))
    with pytest.raises(SpawnError) as caught:
        await engine.start()
    assert message.replace("{tmp}", str(tmp_path)) in str(caught.value)
    assert (await engine.inspect()).state is EngineState.CREATED
    assert await engine.stop(grace=1.0) == ExitStatus(wanted=True)


async def test_a_missing_working_dir_is_named(create: Start, tmp_path: Path) -> None:
    engine = create(make_plan("true", port=1, cwd=tmp_path / "gone"))
    with pytest.raises(SpawnError, match=f"its working_dir {tmp_path}/gone is not a folder"):
        await engine.start()


@pytest.mark.parametrize("env", [{"A=B": "x"}, {"A": "x\0y"}])
async def test_an_impossible_variable_is_a_spawn_error(env: dict[str, str], create: Start) -> None:  # L17
    engine = create(make_plan("true", port=1, env=env))
    with pytest.raises(SpawnError, match="in its arguments or environment"):
        await engine.start()


async def test_a_relative_command_is_relative_to_the_working_dir(create: Start, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "run.sh").chmod(0o755)
    engine = create(make_plan("./run.sh", port=1, cwd=tmp_path))
    await engine.start()
    await engine.wait()
    assert engine.log_tail(1) == ("here",)


async def test_programs_of_our_own_environment_are_found(create: Start) -> None:
    name = Path(sys.executable).name
    engine = create(make_plan(name, "-c", "print('found')", port=1, env={}))
    await engine.start()
    assert (await engine.wait()).code == 0


# --- records ----------------------------------------------------------------------------------------------


async def test_stats_are_summed_over_the_tree(create: Start) -> None:
    engine = create(shell_plan(f"{sys.executable} -c '{SLEEP}' & {sys.executable} -c '{SLEEP}'"))
    assert (await engine.stats()).processes is None
    await engine.start()
    first = await engine.stats()
    assert first.cpu_percent is None
    second = await engine.stats()
    assert second.cpu_percent is not None
    assert (second.memory_bytes or 0) > 0
    assert (second.processes or 0) >= 1


async def test_an_engine_that_cannot_be_recorded_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = ProcessDriver(tmp_path / "state", dict(os.environ), SETTINGS)
    engine = driver.create(make_plan("sh", "-c", "sleep 300 & wait", port=1))

    def full(self: RunFile, fd: int | None) -> None:
        if self._records:
            time.sleep(0.2)  # meanwhile the shell has a child, which holds the pipe
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RunFile, "_write", full)
    with pytest.raises(SpawnError, match="no record of it can be written"):
        await asyncio.wait_for(engine.start(), 5)
    await until(lambda: carriers(driver.run) == [])
    await driver.aclose()

    assert list((tmp_path / "state").iterdir()) == []


async def test_an_unwritable_state_folder_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    driver = ProcessDriver(tmp_path / "file" / "state", dict(os.environ), SETTINGS)
    engine = driver.create(make_plan("sleep", "300", port=1))
    with pytest.raises(SpawnError, match=r"no record of it can be written.*cache folder must be writable"):
        await engine.start()
    assert carriers(driver.run) == []
