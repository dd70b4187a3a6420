"""What all benches have in common as programs: how long they may take, and where results go."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import lemonpod
from tests.bench.install import MissingError, default_cache
from tests.bench.plot import plot
from tests.bench.report import Report, document, text

_TITLE: Final = "lemonpod, measured side by side"
_LIBRARIES: Final = ("aiohttp", "httptools", "typer", "uvloop")
"""What figures depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a bench is to be run."""

    quick: bool = False
    rounds: int | None = None
    cache: Path
    """The folder of peers that were made."""
    tell: Callable[[str], None]
    """Takes what is being done."""

    def times(self, usual: int, *, quick: int = 1) -> int:
        """The number of rounds, where nothing else was asked for."""
        return self.rounds or (quick if self.quick else usual)


def parser(about: str | None, name: str) -> argparse.ArgumentParser:
    """The options of every bench; `name` is that of its files."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="fewer rounds, to see that it works")
    made.add_argument("--rounds", type=int, help="each bench has its own number, if left out")
    made.add_argument("--cache", type=Path, default=default_cache(), help="folder of peers that were made")
    made.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for results")
    made.set_defaults(name=name)
    return made


def run(said: argparse.Namespace, *benches: Callable[[Run], Report]) -> None:
    """Run one after the other; print all that was found, and write it to files."""
    about, begun = machine(), time.monotonic()
    asked = Run(
        quick=said.quick,
        rounds=said.rounds,
        cache=said.cache,
        tell=lambda line: print(line, file=sys.stderr, flush=True),
    )
    try:
        reports = [bench(asked) for bench in benches]
    except MissingError as error:
        raise SystemExit(f"error: {error}") from error
    about["took_seconds"] = round(time.monotonic() - begun)
    print(text(reports), end="")
    files = write(said.out, said.name, reports, about)
    print(f"\nwritten after {about['took_seconds']} s: {', '.join(map(str, files))}")


def write(folder: Path, name: str, reports: Sequence[Report], about: dict[str, Any]) -> list[Path]:
    """The files of results: as JSON, as text, and as a plot where there is something to plot."""
    contents = {
        "json": json.dumps(document(reports, about), indent=2) + "\n",
        "txt": text(reports),
    }
    if panels := [panel for report in reports for panel in report.panels]:
        contents["svg"] = plot(_TITLE, panels)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for suffix, content in contents.items():
        files.append(folder / f"{name}.{suffix}")
        files[-1].write_text(content)
    return files


def machine() -> dict[str, Any]:
    """What the figures hold for."""
    return {
        "lemonpod": lemonpod.__version__,
        "python": platform.python_version(),
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "kernel": platform.release(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
    }


def _processor() -> str | None:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return None
