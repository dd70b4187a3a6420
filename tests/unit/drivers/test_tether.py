"""What is tethered ends with whoever started it, and so does the second process that a rootless podman is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from lemonpod.drivers import tether
from tests.lab.waiting import wait_until
from tests.waiting import alive

# A program that is two processes of the same command line: the first waits, the second writes its pid.
TWOFOLD = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_DFL)
if os.fork():
    os.wait()
else:
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    time.sleep(60)
"""


def tethered(parent: int, note: Path) -> list[str]:
    program = (sys.executable, "-c", TWOFOLD, str(note))
    folder = note.parent / "folder"
    folder.mkdir()
    return [sys.executable, "-I", "-S", tether.__file__, str(parent), str(folder), *program]


def test_both_processes_of_a_program_end_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with subprocess.Popen(tethered(os.getpid(), note)) as process:
        wait_until(note.exists, "the second process")
        second = int(note.read_text())
        assert alive(second)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM or process.returncode != 0
    wait_until(lambda: not alive(second), "its end")
    assert (tmp_path / "folder").exists()  # whoever started it is there, and tidies up


def test_it_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    start = (
        "import os, subprocess, sys, time\n"
        "argv = [str(os.getpid()) if word == 'PARENT' else word for word in sys.argv[1:]]\n"
        "subprocess.Popen(argv)\n"
        "time.sleep(60)\n"
    )
    argv = ["PARENT" if word == "0" else word for word in tethered(0, note)]
    with subprocess.Popen([sys.executable, "-c", start, *argv]) as parent:
        wait_until(note.exists, "the second process")
        second = int(note.read_text())
        parent.kill()
    wait_until(lambda: not alive(second), "its end")
    wait_until(lambda: not (tmp_path / "folder").exists(), "the end of its folder")


def test_a_parent_that_is_gone_already(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with subprocess.Popen(tethered(1 << 22, note)) as process:
        assert process.wait(10) != 0
