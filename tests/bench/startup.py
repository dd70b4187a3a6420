"""How long starting takes, as ratios from one run: `python -m tests.bench.startup [ROUNDS]`.

`--help` is held against an empty two-command typer app, `serve` until `/live` answers against importing
what any aiohttp server on uvloop must import. Both sides of a ratio alternate, so that noise hits both.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

EMPTY_APP = """
import typer
app = typer.Typer()
@app.command()
def one() -> None: ...
@app.command()
def two() -> None: ...
app()
"""


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "empty.py")
        script.write_text(EMPTY_APP)
        compare(
            "lemonpod --help / empty typer app --help",
            lambda: run([sys.executable, "-m", "lemonpod", "--help"]),
            lambda: run([sys.executable, str(script), "--help"]),
            rounds,
        )
        compare(
            "serve until /live / import aiohttp.web, uvloop",
            lambda: serve_until_live(Path(folder)),
            lambda: run([sys.executable, "-c", "import aiohttp.web, uvloop"]),
            rounds,
        )


def compare(title: str, ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> None:
    """Print both medians and their ratio, with the spread of the ratios of the pairs."""
    ours(), theirs()  # both once unmeasured: byte code and the disk cache
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    ratios = sorted(mine / other for mine, other in pairs)
    mine, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(
        f"{title}: {mine / other:.2f} ({mine * 1000:.0f} ms / {other * 1000:.0f} ms,"
        f" ratios of {rounds} pairs {ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


def run(argv: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def serve_until_live(folder: Path) -> float:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
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
                    raise SystemExit(f"serve ended with code {server.returncode}") from None
                time.sleep(0.002)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


if __name__ == "__main__":
    main()
