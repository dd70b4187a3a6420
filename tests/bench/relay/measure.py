"""Rounds over all peers that are there; in each, what is compared is measured back to back."""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests.bench.figures import percentile
from tests.bench.install import MissingError
from tests.bench.relay import peers
from tests.bench.relay.client import Address
from tests.bench.relay.load import (
    LoadError,
    StreamLoad,
    download,
    first_bytes,
    raise_file_limit,
    small_requests,
    upload,
    write_wrk_script,
)
from tests.bench.relay.metrics import Metric
from tests.bench.relay.peers import Peer, Work

CONNECTIONS: Final = 16
STREAMS: Final = 128
STREAMS_OF_SLOW: Final = 32
_PATIENCE_WITH_SLOW: Final = 6
"""So many times longer may it take until all streams are open."""
RATE: Final = 50.0
FEW_STREAMS: Final = 100
MANY_STREAMS: Final = 1000
MANY_RATE: Final = 0.5  # they are there to be open, not to keep anybody busy
FILE_SIZE: Final = 200 * 1000 * 1000
_MB: Final = 1_000_000
_HOLD: Final = 1.0  # streams outlive the window by as much as it may take to open them all

Values = dict[Metric, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is measured, and for how long."""

    peers: Sequence[str]
    rounds: int = 5
    seconds: float = 2.0
    pairs: int = 300
    """Requests at one connection, of each peer in each round."""
    many_hold: float = 5.0
    """How long all of 1,000 streams may take to open: the first must not have ended by then."""
    cache: Path


@dataclass(slots=True)
class Results:
    """One list for each peer and metric, a value for each round; and what could not be measured, and why."""

    samples: dict[str, dict[Metric, list[float | None]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    missing: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, peer: str, values: Mapping[Metric, float | None]) -> None:
        for metric, value in values.items():
            self.samples[peer][metric].append(value)


def measure(options: Options, tell: Callable[[str], None]) -> Results:
    """Bring up what is there, measure, and end everything."""
    raise_file_limit()
    results = Results()
    # Memory that a proxy once had it may keep, so streams and files each find it as it was started.
    streaming = [name for name in options.peers if Work.STREAMS in peers.KINDS[name].work]
    with _bench(streaming, options, results, tell) as bench:
        _do(_MANY_STREAMS, bench, tell)
    with _bench(options.peers, options, results, tell) as bench:
        for peer in bench.peers:
            results.add(peer.name, {Metric.MEMORY_IDLE: _resident(peer)})
        for number in range(options.rounds):
            for step in _STEPS:
                _do(step, replace(bench, round=number), tell)
    return results


@dataclass(frozen=True, slots=True)
class _Bench:
    peers: Sequence[Peer]
    """The first is the engine itself."""
    script: Path
    options: Options
    results: Results
    round: int = 0


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    work: Work
    run: Callable[[Peer, _Bench], Values]
    metrics: tuple[Metric, ...]


@contextmanager
def _bench(
    names: Sequence[str], options: Options, results: Results, tell: Callable[[str], None]
) -> Iterator[_Bench]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lemonpod-bench-")))
        script = folder / "post.lua"
        write_wrk_script(script)
        direct = stack.enter_context(peers.engine(folder))
        there = [direct]
        for name in names:
            if name in results.missing:
                continue
            tell(f"starting {name}")
            try:
                there.append(stack.enter_context(peers.peer(name, direct.address, folder, options.cache)))
            except MissingError as error:
                results.missing[name] = str(error)
                tell(f"{name} is missing: {error}")
        results.versions |= {peer.name: peer.version for peer in there}
        yield _Bench(there, script, options, results)


def _do(step: _Step, bench: _Bench, tell: Callable[[str], None]) -> None:
    """One step with every peer that can do its work; where it fails its values are unknown."""
    tell(f"round {bench.round + 1} of {bench.options.rounds}: {step.name}")
    # Every other round goes backwards, so that no peer always follows the same one.
    for peer in bench.peers if bench.round % 2 == 0 else bench.peers[::-1]:
        if step.work not in peer.work:
            continue
        try:
            values = step.run(peer, bench)
        except (LoadError, OSError) as error:
            bench.results.failures.append(f"{peer.name}: {step.name}: {error}")
            values = {}
        bench.results.add(peer.name, {metric: values.get(metric) for metric in step.metrics})


def _requests(peer: Peer, bench: _Bench) -> Values:
    before = _cpu(peer)
    done = small_requests(bench.script, peer.address, CONNECTIONS, bench.options.seconds)
    return {
        Metric.CPU_PER_REQUEST: _micros(before, _cpu(peer), done.requests),
        Metric.REQUESTS_PER_SECOND: done.requests / done.seconds,
        Metric.LATENCY_P50: done.p50 * 1000,
        Metric.LATENCY_P90: done.p90 * 1000,
        Metric.LATENCY_P99: done.p99 * 1000,
        Metric.FAILED_REQUESTS: done.failed,
    }


def _first_byte(peer: Peer, bench: _Bench) -> Values:
    direct, mine = first_bytes([bench.peers[0].address, peer.address], bench.options.pairs)
    return {
        Metric.FIRST_BYTE_P50: _millis(percentile(mine, 50)),
        Metric.FIRST_BYTE_P90: _millis(percentile(mine, 90)),
        Metric.FIRST_BYTE_P99: _millis(percentile(mine, 99)),
        Metric.ADDED_FIRST_BYTE: _millis(statistics.median(mine) - statistics.median(direct)),
    }


def _streams(peer: Peer, bench: _Bench) -> Values:
    streams = STREAMS_OF_SLOW if peer.slow else STREAMS
    with closing(StreamLoad(peer.address, streams, RATE, bench.options.seconds, _HOLD)) as load:
        load.step()
        before = _cpu(peer)
        events = load.step()["events"]
        after = _cpu(peer)
        end = load.step()
    _note(peer, bench, end)
    return {
        Metric.CPU_PER_EVENT: _micros(before, after, events),
        Metric.GAP_P50: _millis(end["gap_p50"]),
        Metric.GAP_P99: _millis(end["gap_p99"]),
        Metric.FAILED_STREAMS: end["errors"],
    }


def _many_streams(peer: Peer, bench: _Bench) -> Values:
    """Memory as streams are added; those of the second loader come on top of the first one's."""
    hold = bench.options.many_hold * (_PATIENCE_WITH_SLOW if peer.slow else 1)
    with closing(StreamLoad(peer.address, FEW_STREAMS, MANY_RATE, 1.0, hold + 1)) as few:
        first = few.step()["open"]
        at_first = _resident(peer)
        more = MANY_STREAMS - FEW_STREAMS
        with closing(StreamLoad(peer.address, more, MANY_RATE, 1.0, hold)) as many:
            added = many.step()["open"]
            at_all = _resident(peer)
            many.step()
            ends = [many.step()]
        few.step()
        ends.append(few.step())
    if first + added < MANY_STREAMS:
        bench.results.failures.append(
            f"{peer.name}: of {MANY_STREAMS} streams no more than {first + added} were open at once"
        )
    for end in ends:
        _note(peer, bench, end)
    each = None
    if at_first is not None and at_all is not None and added:
        each = (at_all - at_first) * 1000 / added
    return {
        Metric.MEMORY_100: at_first,
        Metric.MEMORY_1000: at_all if first + added == MANY_STREAMS else None,
        Metric.KB_PER_STREAM: each,
        Metric.FAILED_OF_1000: sum(end["errors"] for end in ends),
    }


def _note(peer: Peer, bench: _Bench, end: Mapping[str, Any]) -> None:
    if end["errors"]:
        bench.results.failures.append(
            f"{peer.name}: {end['errors']} streams, as one that {end['first_error']}"
        )


def _files(peer: Peer, bench: _Bench) -> Values:
    return {
        **_file(peer, bench, download, Metric.DOWNLOAD, Metric.DOWNLOAD_MEMORY),
        **_file(peer, bench, upload, Metric.UPLOAD, Metric.UPLOAD_MEMORY),
    }


def _file(
    peer: Peer, bench: _Bench, move: Callable[[Address, int], float], throughput: Metric, memory: Metric
) -> Values:
    tree = peer.tree if bench.round == 0 else None  # later it has memory to spare
    before = 0
    if tree is not None:
        before = tree.memory().resident
        tree.reset_peak()
    took = move(peer.address, FILE_SIZE)
    more = None if tree is None else (tree.peak() - before) / _MB
    return {throughput: FILE_SIZE / _MB / took, memory: more}


_MANY_STREAMS: Final = _Step(
    f"{FEW_STREAMS} and {MANY_STREAMS} streams",
    Work.STREAMS,
    _many_streams,
    (Metric.MEMORY_100, Metric.MEMORY_1000, Metric.KB_PER_STREAM, Metric.FAILED_OF_1000),
)
_STEPS: Final = (
    _Step(
        "200 MB down and up",
        Work.FILES,
        _files,
        (Metric.DOWNLOAD, Metric.DOWNLOAD_MEMORY, Metric.UPLOAD, Metric.UPLOAD_MEMORY),
    ),
    _Step(
        f"small requests at {CONNECTIONS} connections",
        Work.REQUESTS,
        _requests,
        (
            *(Metric.CPU_PER_REQUEST, Metric.REQUESTS_PER_SECOND, Metric.FAILED_REQUESTS),
            *(Metric.LATENCY_P50, Metric.LATENCY_P90, Metric.LATENCY_P99),
        ),
    ),
    _Step(
        "first bytes at one connection",
        Work.REQUESTS,
        _first_byte,
        (Metric.FIRST_BYTE_P50, Metric.FIRST_BYTE_P90, Metric.FIRST_BYTE_P99, Metric.ADDED_FIRST_BYTE),
    ),
    _Step(
        f"{STREAMS} streams of {RATE:.0f} events per second",
        Work.STREAMS,
        _streams,
        (Metric.CPU_PER_EVENT, Metric.GAP_P50, Metric.GAP_P99, Metric.FAILED_STREAMS),
    ),
)


def _cpu(peer: Peer) -> float | None:
    return None if peer.tree is None else peer.tree.cpu_seconds()


def _resident(peer: Peer) -> float | None:
    return None if peer.tree is None else peer.tree.memory().resident / _MB


def _micros(before: float | None, after: float | None, count: int) -> float | None:
    return None if before is None or after is None or not count else (after - before) * 1e6 / count


def _millis(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
