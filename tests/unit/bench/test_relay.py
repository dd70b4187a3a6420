"""What the bench of the relay makes of rounds over its peers."""

from __future__ import annotations

from tests.bench.relay.compare import report
from tests.bench.relay.measure import Results
from tests.bench.relay.metrics import Metric, figures
from tests.bench.report import text


def test_limits_are_held_against_the_right_peer() -> None:
    samples = {
        "lemonpod": {Metric.CPU_PER_REQUEST: [60.0], Metric.UPLOAD: [400.0], Metric.GAP_P99: [23.0]},
        "nginx": {Metric.CPU_PER_REQUEST: [20.0], Metric.UPLOAD: [1000.0], Metric.GAP_P99: [21.5]},
    }
    said = {
        (figure.what, figure.against): figure.met for figure in figures(samples) if figure.met is not None
    }
    assert said == {
        ("CPU of a small request", "nginx"): True,
        ("200 MB up", "nginx"): False,  # 0.4, and at least 0.5 it has to be
        ("gap of events p99", "nginx"): True,
    }


def test_a_figure_without_a_limit_is_told_of_peers_that_were_there() -> None:
    def against(peers: set[str]) -> set[str]:
        samples = {peer: {Metric.CPU_PER_REQUEST: [1.0]} for peer in {"lemonpod", *peers}}
        return {figure.against for figure in figures(samples) if figure.limit is None}

    assert against(set()) == set()
    assert against({"litellm", "nginx"}) == {"litellm"}


def test_a_report_has_a_column_for_each_peer_and_tells_what_is_missing() -> None:
    results = Results(missing={"llama-swap": "no Go toolchain here"}, failures=["nginx: broke off"])
    results.add("direct", {Metric.ADDED_FIRST_BYTE: 0.0})
    results.add("lemonpod", {Metric.CPU_PER_REQUEST: 50.0, Metric.FAILED_STREAMS: 3})
    results.versions["lemonpod"] = "lemonpod 1"
    made = report(results, {"wrk": "wrk 4"})
    assert made.table is not None
    assert list(made.table.head) == ["", "direct", "lemonpod"]
    assert ["streams that failed", "-", "3.00"] in [list(row) for row in made.table.rows]
    assert made.data["versions"] == {"lemonpod": "lemonpod 1", "wrk": "wrk 4"}
    assert "llama-swap is missing: no Go toolchain here" in text([made])
    assert [set(panel.values) for panel in made.panels] == [{"lemonpod"}, set(), set(), set()]
