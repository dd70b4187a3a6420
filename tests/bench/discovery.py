"""What looking for manifests costs: `python -m tests.bench.discovery [COUNT ...]`.

The inventory of a server is made over so many manifests, each count in a process of its own: CPU seconds of
the first look, imports included, and of the looks that follow every two seconds and find nothing new.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.bench.relay.figures import Spread
from tests.bench.relay.peers import manifest

COUNTS: Final = (1, 100, 5000)
LOOKS: Final = 11
INTERVAL: Final = 2.0
_ONE: Final = "--one"


def main() -> None:
    if sys.argv[1:2] == [_ONE]:
        print(json.dumps(measure(Path(sys.argv[2]))))
        return
    for count in [int(word) for word in sys.argv[1:]] or COUNTS:
        with tempfile.TemporaryDirectory(prefix="lemonpod-bench-") as name:
            write_manifests(Path(name), count)
            argv = [sys.executable, "-m", "tests.bench.discovery", _ONE, name]
            found, first, again = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
        if found != count:
            raise SystemExit(f"error: {found} of {count} manifests were found")
        looks = Spread.of(again)
        assert looks is not None
        print(
            f"{count} manifests: the first look {first:.2f} s of CPU (limit ≤ 2 at 5,000), each further one"
            f" {looks.median * 1000:.1f} ms ({looks.least * 1000:.1f} to {looks.most * 1000:.1f}), every"
            f" {INTERVAL:.0f} s that is {looks.median / INTERVAL:.2%} of a core (limit ≤ 1 %)"
        )


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


if __name__ == "__main__":
    main()
