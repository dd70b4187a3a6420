"""Whether a request costs more where more is registered: `python -m tests.bench.scaling [ROUNDS [MANY]]`.

Two servers, one with one model and recipe and one with 2,000 of each, answer small requests in turns. The
look at the disk every two seconds is no part of a request: what each server uses while it is idle is
measured too, told, and taken off.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench.relay.accounting import ProcessTree
from tests.bench.relay.client import MODEL, Address
from tests.bench.relay.figures import Spread
from tests.bench.relay.install import default_cache
from tests.bench.relay.load import small_requests, write_wrk_script
from tests.bench.relay.peers import Peer, Place, Work, free_port, lemonpod_with, manifest, model, running

CONNECTIONS: Final = 16
SECONDS: Final = 4.0
"""Two looks at the disk."""


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    many = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    with tempfile.TemporaryDirectory(prefix="lemonpod-bench-") as name:
        folder = Path(name)
        script = folder / "post.lua"
        write_wrk_script(script)
        with server(folder / "one", 1) as one, server(folder / "many", many) as lots:
            idle_one, idle_lots = idle(one), idle(lots)
            pairs = [
                (cost(one, script, idle_one), cost(lots, script, idle_lots))
                if turn % 2
                else (cost(lots, script, idle_lots), cost(one, script, idle_one))[::-1]
                for turn in range(rounds)
            ]
    ratios = Spread.of([lots / one for one, lots in pairs])
    assert ratios is not None
    medians = [statistics.median(side) * 1e6 for side in zip(*pairs, strict=True)]
    print(
        f"CPU of a request with {many} models and recipes / with one: {ratios.median:.3f}"
        f" ({medians[1]:.0f} µs / {medians[0]:.0f} µs, ratios of {rounds} pairs"
        f" {ratios.least:.3f} to {ratios.most:.3f}), limit ≤ 1.05;"
        f" idle they use {idle_lots:.2%} and {idle_one:.2%} of a core"
    )


@contextmanager
def server(folder: Path, count: int) -> Iterator[Peer]:
    """A lemonpod with so many recipes, and a model for each; the last of them is the one that is asked."""
    folder.mkdir()
    address = Address(free_port())
    recipes = [f"bench-engine-{number}" for number in range(count)]
    models = {f"model-{number}": model(recipe) for number, recipe in enumerate(recipes[:-1])}
    place = Place(folder=folder, port=address.port, engine=address, cache=default_cache())
    command = lemonpod_with(
        place,
        manifests=[manifest(recipe) for recipe in recipes],
        models={**models, MODEL: model(recipes[-1])},
    )
    with running("lemonpod", command, address, folder) as process:
        yield Peer("lemonpod", address, ProcessTree(process.pid), frozenset({Work.REQUESTS}))


def idle(peer: Peer) -> float:
    """The part of a core that the server uses while nobody asks anything."""
    assert peer.tree is not None
    before, begun = peer.tree.cpu_seconds(), time.monotonic()
    time.sleep(2 * SECONDS)
    return (peer.tree.cpu_seconds() - before) / (time.monotonic() - begun)


def cost(peer: Peer, script: Path, at_rest: float) -> float:
    """CPU seconds of one small request."""
    assert peer.tree is not None
    before, begun = peer.tree.cpu_seconds(), time.monotonic()
    done = small_requests(script, peer.address, CONNECTIONS, SECONDS)
    used = peer.tree.cpu_seconds() - before - at_rest * (time.monotonic() - begun)
    return used / done.requests


if __name__ == "__main__":
    main()
