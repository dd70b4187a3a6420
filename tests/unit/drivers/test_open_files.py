"""The server opens many files, and what it starts gets the limit that was meant for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PROGRAM = """
import os, resource, sys
from pathlib import Path
from lemonpod.drivers.open_files import raise_limit
from lemonpod.drivers.spawn import spawn

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
raise_limit()
raise_limit()
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(int(sys.argv[1]))]
tell = ["/bin/sh", "-c", "sleep 0.2; ulimit -Sn; ulimit -Hn"]
engine = spawn(tell, env={"PATH": os.environ["PATH"]}, cwd=None)
print(engine.communicate()[0].decode().split(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize("held", [0, 50, 95, 250])
def test_an_engine_gets_the_limit_that_the_server_was_given(held: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(held)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "['100', '300'] 300 300\n"
