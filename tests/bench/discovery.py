"""What looking for manifests costs: `python -m tests.bench.discovery [COUNT ...]`.

The inventory of a server is made over so many manifests, each round in a process of its own: CPU seconds of
the first look, imports included, and of the looks that follow every two seconds and find nothing new.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench import program
from tests.bench.figures import Figure, Limit
from tests.bench.program import Run
from tests.bench.relay.peers import manifest
from tests.bench.report import Report

NAME: Final = "discovery"
COUNTS: Final = (1, 100, 5000)
LOOKS: Final = 11
INTERVAL: Final = 2.0
_LIMITED: Final = 5000
_ONE: Final = "--one"


def bench(run: Run, *, counts: Sequence[int] = COUNTS) -> Report:
    return Report(name=NAME, figures=[figure for count in counts for figure in _figures(count, run)])


def _figures(count: int, run: Run) -> list[Figure]:
    rounds = run.times(3)
    run.tell(f"{count} manifests")
    with tempfile.TemporaryDirectory(prefix="lemonpod-bench-") as name:
        write_manifests(Path(name), count)
        looks = [look(name, count) for _ in range(rounds)]
    limited = count == _LIMITED
    return [
        Figure(
            what=f"discovery of {count:,} manifests",
            unit="s of CPU",
            ours=[first for first, _ in looks],
            limit=Limit(4, 2) if limited else None,
        ),
        Figure(
            what=f"looking at {count:,} again",
            unit="% of a core",
            ours=[100 * again / INTERVAL for _, again in looks],
            limit=Limit(4, 1) if limited else None,
        ),
    ]


def look(folder: str, count: int) -> tuple[float, float]:
    """CPU seconds of the first look and of a further one, by a process that never saw the files before."""
    argv = [sys.executable, "-m", "tests.bench.discovery", _ONE, folder]
    found, first, again = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    if found != count:
        raise OSError(f"{found} of {count} manifests were found")
    return first, statistics.median(again)


def write_manifests(folder: Path, count: int) -> None:
    """In the place of the user's own manifests, with `folder` as the home of configuration."""
    backends = folder / "lemonade" / "backends"
    backends.mkdir(parents=True)
    for number in range(count):
        path = backends / f"bench-{number}.json"
        path.write_text(json.dumps(manifest(f"bench-{number}"), indent=2))
        path.chmod(0o644)
    settled = time.time() - 60  # as files on a disk are: nobody is writing them
    for path in backends.iterdir():
        os.utime(path, (settled, settled))


def measure(folder: Path) -> tuple[int, float, list[float]]:
    """How many were found, CPU seconds of the first look, and of each that follows."""
    begun = time.process_time()
    from lemonpod.bootstrap import make_inventory
    from lemonpod.config import find_folders, load_settings

    environ = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "HF_HOME": str(folder)}
    inventory = make_inventory(load_settings(environ, find_folders(environ, cache=folder / "cache")), environ)
    inventory.refresh()
    first = time.process_time() - begun
    again = []
    for _ in range(LOOKS):
        begun = time.process_time()
        inventory.refresh()
        again.append(time.process_time() - begun)
    ours = [recipe for recipe in inventory.catalog.descriptors if recipe.startswith("bench-")]
    return len(ours), first, again


def main() -> None:
    if sys.argv[1:2] == [_ONE]:
        print(json.dumps(measure(Path(sys.argv[2]))))
        return
    parser = program.parser(__doc__, NAME)
    parser.add_argument("counts", nargs="*", type=int, metavar="COUNT", help="1, 100 and 5000, if left out")
    said = parser.parse_args()
    program.run(said, partial(bench, counts=said.counts or COUNTS))


if __name__ == "__main__":
    main()
