"""The relay against its peers, as a bench: what is measured becomes a report."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.install import on_path, said_by
from tests.bench.program import Run
from tests.bench.relay.measure import Options, Results, measure
from tests.bench.relay.metrics import figures, panels, table
from tests.bench.relay.peers import KINDS
from tests.bench.report import Report

NAME = "relay"


def bench(run: Run, *, peers: Sequence[str] = (), seconds: float | None = None) -> Report:
    """All peers, unless some are named; raises MissingError where there is no wrk."""
    wrk = on_path("wrk", "wrk")
    usual = [name for name, kind in KINDS.items() if not (run.quick and kind.slow)]
    options = Options(
        peers=peers or usual,
        rounds=run.times(5),
        seconds=seconds or (1.0 if run.quick else 2.0),
        many_hold=2.0 if run.quick else 5.0,
        cache=run.cache,
    )
    results = measure(options, run.tell)
    return report(results, {"wrk": said_by([wrk, "-v"])})


def report(results: Results, tools: dict[str, str]) -> Report:
    """What was measured, to be told."""
    return Report(
        name=NAME,
        table=table(results.samples),
        figures=figures(results.samples),
        panels=panels(results.samples),
        missing=results.missing,
        failures=results.failures,
        data={
            "versions": {**results.versions, **tools},
            "samples": {peer: dict(samples) for peer, samples in results.samples.items()},
        },
    )
