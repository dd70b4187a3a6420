"""From nothing to an answer, and from one model to another: `python -m tests.bench.loading`.

The same engine is started by lemonpod for a first request, by hand, with polling `/health` at the same
interval, and by llama-swap, which polls at its own. A swap is a request for a model while another one runs:
by hand and with lemonpod, which loads beside what runs, that one is ended first. All take turns.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from tests.bench import program
from tests.bench.figures import OURS, Figure, Spread
from tests.bench.install import MissingError
from tests.bench.program import Run
from tests.bench.relay.client import API_KEY, MODEL, Address, chat
from tests.bench.relay.engine import CHAT
from tests.bench.relay.load import LoadError
from tests.bench.relay.peers import (
    REPOSITORY,
    STAND_IN,
    Command,
    Place,
    free_port,
    lemonpod_with,
    llama_swap_with,
    manifest,
    model,
    on_port,
    running,
)
from tests.bench.report import Report, panel

NAME: Final = "loading"
OTHER: Final = "other"
INTERVAL: Final = 0.02
_BY_HAND: Final = "by hand"
_SWAPPER: Final = "llama-swap"
_PATIENCE: Final = 60.0

Times = Mapping[str, list[float | None]]
"""Milliseconds of each round, by way; None where a way failed."""


def bench(run: Run) -> Report:
    rounds = run.times(11, quick=3)
    figures, panels = [], []
    missing: dict[str, str] = {}
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="lemonpod-bench-") as name:
        for engine, argv in engines(Path(name), missing).items():
            run.tell(f"{rounds} loads and swaps of {engine}")
            folder = Path(name, engine)
            folder.mkdir()
            with ExitStack() as stack:
                ways = dict(_ways(stack, argv, folder, run.cache, missing))
                loads, swaps = measure(ways, rounds, failures)
            for what, times in ((f"load of {engine}", loads), (f"swap of {engine}", swaps)):
                figures += [
                    Figure(what=what, unit="ms", ours=times[OURS], against=way, theirs=times[way])
                    for way in times
                    if way != OURS
                ]
                panels.append(panel(what.capitalize(), "ms", {way: Spread.of(times[way]) for way in times}))
    return Report(name=NAME, figures=figures, panels=panels, missing=missing, failures=failures)


def engines(folder: Path, missing: dict[str, str]) -> dict[str, Sequence[str]]:
    """How to start each that is here: the stand-in, and a real one with a model of half a megabyte."""
    there: dict[str, Sequence[str]] = {"a stand-in": STAND_IN}
    if lacks := [name for name in ("xllamacpp", "gguf") if importlib.util.find_spec(name) is None]:
        missing["llama.cpp"] = f"no {' and no '.join(lacks)} here: just setup"
        return there
    from tests.tiny_model import write_tiny_gguf

    weights = write_tiny_gguf(folder / "tiny.gguf")
    there["llama.cpp"] = (
        *(sys.executable, "-m", "lemonpod.demo.llama_server", "--model", str(weights)),
        *("--host", "127.0.0.1", "--port", "{port}", "--ctx-size", "512", "--no-warmup"),
    )
    return there


class Way(Protocol):
    """One way to have models served, one at a time."""

    def clear(self) -> None:
        """End what runs; return when it has ended."""

    def switch(self, name: str) -> None:
        """Return when this model has answered and nothing else runs."""


class ByHand:
    """An engine as one starts it at a prompt."""

    def __init__(self, argv: Sequence[str], folder: Path) -> None:
        self._argv = argv
        self._log = folder / "by-hand.log"
        self._process: subprocess.Popen[bytes] | None = None

    def clear(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_PATIENCE)
            self._process = None

    def switch(self, name: str) -> None:
        self.clear()
        address = Address(free_port())
        with self._log.open("wb") as log:
            argv = on_port(self._argv, address.port)
            self._process = subprocess.Popen(argv, cwd=REPOSITORY, stdout=log, stderr=log)
        deadline = time.monotonic() + _PATIENCE
        while not healthy(address.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise LoadError(
                    f"by hand: it did not come up: {self._log.read_text(errors='replace')[-600:]}"
                )
            time.sleep(INTERVAL)
        answer(address, name)


class Lemonpod:
    """It loads a model for its first request, beside what else runs."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._loaded: str | None = MODEL

    def clear(self) -> None:
        if self._loaded is not None:
            _post(self._address, "/api/v1/unload", json.dumps({"model_name": self._loaded}).encode())
            self._loaded = None

    def switch(self, name: str) -> None:
        self.clear()
        answer(self._address, name)
        self._loaded = name


class LlamaSwap:
    """It ends by itself what runs, for a request for another model."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def clear(self) -> None:
        _post(self._address, "/api/models/unload", b"")

    def switch(self, name: str) -> None:
        answer(self._address, name)


def measure(ways: Mapping[str, Way], rounds: int, failures: list[str]) -> tuple[Times, Times]:
    """Times of loads and of swaps; one round before them is not measured: it finds caches cold."""
    loads: Times = defaultdict(list)
    swaps: Times = defaultdict(list)
    for turn in range(-1, rounds):
        for name, way in list(ways.items())[:: 1 if turn % 2 else -1]:
            load = swap = None
            try:
                way.clear()
                load, swap = _milliseconds(way, MODEL), _milliseconds(way, OTHER)
            except LoadError as error:
                failures.append(f"{name}: {error}")
            if turn >= 0:
                loads[name].append(load)
                swaps[name].append(swap)
    return loads, swaps


def _milliseconds(way: Way, name: str) -> float:
    begun = time.perf_counter()
    way.switch(name)
    return (time.perf_counter() - begun) * 1000


def _ways(
    stack: ExitStack, argv: Sequence[str], folder: Path, cache: Path, missing: dict[str, str]
) -> Iterator[tuple[str, Way]]:
    by_hand = ByHand(argv, folder)
    stack.callback(by_hand.clear)
    yield _BY_HAND, by_hand
    try:
        yield _SWAPPER, LlamaSwap(stack.enter_context(_llama_swap(argv, folder / "swap", cache)))
    except MissingError as error:
        missing[_SWAPPER] = str(error)
    yield OURS, Lemonpod(stack.enter_context(_lemonpod(argv, folder / "ours", cache)))


@contextmanager
def _lemonpod(argv: Sequence[str], folder: Path, cache: Path) -> Iterator[Address]:
    place = _place(folder, cache)
    recipe = manifest("bench-engine", argv, poll_interval_ms=round(INTERVAL * 1000))
    models = {name: model("bench-engine") for name in (MODEL, OTHER)}
    with _served(lemonpod_with(place, manifests=[recipe], models=models), place) as address:
        yield address


@contextmanager
def _llama_swap(argv: Sequence[str], folder: Path, cache: Path) -> Iterator[Address]:
    place = _place(folder, cache)
    with _served(llama_swap_with(place, {MODEL: argv, OTHER: argv}), place) as address:
        yield address


def _place(folder: Path, cache: Path) -> Place:
    folder.mkdir()
    port = free_port()
    return Place(folder=folder, port=port, engine=Address(port), cache=cache)


@contextmanager
def _served(command: Command, place: Place) -> Iterator[Address]:
    address = Address(place.port)
    with running(place.folder.name, command, address, place.folder):
        yield address


def healthy(port: int) -> bool:
    """Whether an engine says so."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answered:
            return bool(answered.status == 200)
    except OSError:
        return False


def answer(address: Address, name: str) -> None:
    """Return when the model has answered."""
    _post(address, CHAT, chat(model=name, max_tokens=1))


def _post(address: Address, path: str, body: bytes) -> Any:
    headers = {"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(address.url + path, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answered:
            return answered.read()
    except urllib.error.HTTPError as error:
        raise LoadError(f"{path} answered {error.code}: {error.read(500)!r}") from error


if __name__ == "__main__":
    program.run(program.parser(__doc__, NAME).parse_args(), bench)
