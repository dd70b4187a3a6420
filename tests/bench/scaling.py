"""Whether a request costs more where more is registered: `python -m tests.bench.scaling [--many COUNT]`.

Two servers, one with one model and recipe and one with 2,000 of each, answer small requests in turns. The
look at the disk every two seconds is no part of a request: what each server uses while it is idle is
measured too, told, and taken off.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench import program
from tests.bench.figures import Figure, Limit
from tests.bench.install import on_path
from tests.bench.program import Run
from tests.bench.relay.accounting import ProcessTree
from tests.bench.relay.client import MODEL, Address
from tests.bench.relay.load import LoadError, small_requests, write_wrk_script
from tests.bench.relay.peers import Place, free_port, lemonpod_with, manifest, model, running
from tests.bench.report import Report

NAME: Final = "scaling"
MANY: Final = 2000
CONNECTIONS: Final = 16
SECONDS: Final = 4.0
"""Two looks at the disk."""

Server = tuple[Address, ProcessTree]


def bench(run: Run, *, many: int = MANY) -> Report:
    """Raises MissingError where there is no wrk."""
    on_path("wrk", "wrk")
    run.tell(f"a server with one model, and one with {many:,}")
    with tempfile.TemporaryDirectory(prefix="lemonpod-bench-") as name:
        folder = Path(name)
        script = folder / "post.lua"
        write_wrk_script(script)
        with server(folder / "one", 1, run.cache) as one, server(folder / "many", many, run.cache) as lots:
            few, more = Cost(one, script), Cost(lots, script)
            pairs = [
                (more.of_a_request(), few.of_a_request())
                if turn % 2
                else (few.of_a_request(), more.of_a_request())[::-1]
                for turn in range(run.times(5, quick=2))
            ]
    ours, theirs = ([seconds * 1e6 for seconds in side] for side in zip(*pairs, strict=True))
    return Report(
        name=NAME,
        figures=[
            Figure(
                what=f"CPU of a small request with {many:,} models",
                unit="µs",
                ours=ours,
                against="with one",
                theirs=theirs,
                limit=Limit(5, 1.05),
            ),
            Figure(
                what=f"an idle server with {many:,} models", unit="% of a core", ours=[100 * more.at_rest]
            ),
            Figure(what="an idle server with one model", unit="% of a core", ours=[100 * few.at_rest]),
        ],
    )


@contextmanager
def server(folder: Path, count: int, cache: Path) -> Iterator[Server]:
    """A lemonpod with so many recipes, and a model for each; the last of them is the one that is asked."""
    folder.mkdir()
    address = Address(free_port())
    recipes = [f"bench-engine-{number}" for number in range(count)]
    models = {f"model-{number}": model(recipe) for number, recipe in enumerate(recipes[:-1])}
    command = lemonpod_with(
        Place(folder=folder, port=address.port, engine=address, cache=cache),
        manifests=[manifest(recipe) for recipe in recipes],
        models={**models, MODEL: model(recipes[-1])},
    )
    with running("lemonpod", command, address, folder) as process:
        yield address, ProcessTree(process.pid)


class Cost:
    """CPU seconds of one server."""

    def __init__(self, server: Server, script: Path) -> None:
        self._address, self._tree = server
        self._script = script
        before, begun = self._tree.cpu_seconds(), time.monotonic()
        time.sleep(2 * SECONDS)
        self.at_rest = (self._tree.cpu_seconds() - before) / (time.monotonic() - begun)
        """The part of a core that it uses while nobody asks anything."""

    def of_a_request(self) -> float:
        before, begun = self._tree.cpu_seconds(), time.monotonic()
        done = small_requests(self._script, self._address, CONNECTIONS, SECONDS)
        if not done.requests:
            raise LoadError("no request was answered")
        used = self._tree.cpu_seconds() - before - self.at_rest * (time.monotonic() - begun)
        return used / done.requests


def main() -> None:
    parser = program.parser(__doc__, NAME)
    parser.add_argument("--many", type=int, default=MANY, help="models and recipes; 2000, if left out")
    said = parser.parse_args()
    program.run(said, partial(bench, many=said.many))


if __name__ == "__main__":
    main()
