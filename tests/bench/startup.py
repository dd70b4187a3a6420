"""How long starting takes, as ratios from one run: `python -m tests.bench.startup`.

`--help` is held against an empty two-command typer app, `serve` until `/live` answers against importing
what any aiohttp server on uvloop must import. Both sides of a ratio alternate, so that noise hits both.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench import program
from tests.bench.figures import OURS, Figure, Limit, Spread
from tests.bench.program import Run
from tests.bench.relay.peers import free_port
from tests.bench.report import Report, panel

NAME: Final = "startup"
EMPTY_APP: Final = """
import typer
app = typer.Typer()
@app.command()
def one() -> None: ...
@app.command()
def two() -> None: ...
app()
"""
_IMPORTS: Final = "import aiohttp.web, uvloop"


def bench(run: Run) -> Report:
    rounds = run.times(11, quick=3)
    run.tell(f"{rounds} starts of each side")
    with tempfile.TemporaryDirectory(prefix="lemonpod-bench-") as name:
        folder = Path(name)
        script = folder / "empty.py"
        script.write_text(EMPTY_APP)
        shown = in_pairs(
            lambda: seconds_of([sys.executable, "-m", "lemonpod", "--help"]),
            lambda: seconds_of([sys.executable, str(script), "--help"]),
            rounds,
        )
        live = in_pairs(
            lambda: serve_until_live(folder),
            lambda: seconds_of([sys.executable, "-c", _IMPORTS]),
            rounds,
        )
    figures = [
        _figure("lemonpod --help", shown, "an empty typer app", Limit(4, 1.2)),
        _figure("serve until /live", live, _IMPORTS, Limit(4, 2)),
    ]
    values = {OURS: Spread.of(figures[1].ours), "the imports": Spread.of(figures[1].theirs)}
    return Report(
        name=NAME, figures=figures, panels=[panel("Start of the server, until /live", "ms", values)]
    )


def in_pairs(
    ours: Callable[[], float], theirs: Callable[[], float], rounds: int
) -> list[tuple[float, float]]:
    """Seconds of both, side by side; both once unmeasured, which finds the caches cold."""
    ours(), theirs()
    return [(ours(), theirs()) for _ in range(rounds)]


def seconds_of(argv: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def serve_until_live(folder: Path) -> float:
    port = free_port()
    environ = os.environ | {"XDG_CONFIG_HOME": str(folder), "HF_HOME": str(folder)}
    argv = [sys.executable, "-m", "lemonpod", "serve", str(folder / "cache"), "--port", str(port)]
    started = time.perf_counter()
    server = subprocess.Popen(argv, env=environ, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/live", timeout=1):
                    return time.perf_counter() - started
            except OSError:
                if server.poll() is not None:
                    raise ChildProcessError(f"serve ended with code {server.returncode}") from None
                time.sleep(0.002)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


def _figure(what: str, pairs: list[tuple[float, float]], against: str, limit: Limit) -> Figure:
    ours, theirs = ([seconds * 1000 for seconds in side] for side in zip(*pairs, strict=True))
    return Figure(what=what, unit="ms", ours=ours, against=against, theirs=theirs, limit=limit)


if __name__ == "__main__":
    program.run(program.parser(__doc__, NAME).parse_args(), bench)
