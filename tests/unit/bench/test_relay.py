"""What the bench of the relay decides without measuring: percentiles, ratios, limits, the plot."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tests.bench.relay.figures import (
    LIMITS,
    Metric,
    Spread,
    difference,
    paired,
    percentile,
    ratio,
    verdicts,
)
from tests.bench.relay.install import MissingError, on_path
from tests.bench.relay.measure import Results
from tests.bench.relay.plot import Panel, number, plot
from tests.bench.relay.report import document, panels, text


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 50), (99, 99), (100, 100)])
def test_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile(reversed(range(1, 101)), percent) == value


def test_percentile_of_nothing_is_unknown() -> None:
    assert percentile([], 50) is None


def test_ratios_pair_what_was_measured_in_the_same_round() -> None:
    assert paired([2, 30, None, 8], [1, 10, 5, 2], ratio) == Spread(3, 2, 4)
    assert paired([2, 30], [1, 10], difference) == Spread(10.5, 1, 20)
    assert paired([None], [1], ratio) is None


def test_limits_are_held_against_the_right_peer() -> None:
    samples = {
        "lemonpod": {Metric.CPU_PER_REQUEST: [60.0], Metric.UPLOAD: [400.0], Metric.GAP_P99: [23.0]},
        "nginx": {Metric.CPU_PER_REQUEST: [20.0], Metric.UPLOAD: [1000.0], Metric.GAP_P99: [21.5]},
    }
    said = {
        (verdict.limit.metric, verdict.limit.against): verdict.met
        for verdict in verdicts(samples)
        if verdict.met is not None
    }
    assert said == {
        (Metric.CPU_PER_REQUEST, "nginx"): True,
        (Metric.UPLOAD, "nginx"): False,  # 0.4, and at least 0.5 it has to be
        (Metric.GAP_P99, "nginx"): True,
    }


def test_a_report_tells_of_every_limit_and_of_what_is_missing() -> None:
    results = Results(missing={"llama-swap": "no Go toolchain here"}, failures=["nginx: broke off"])
    results.add("direct", {Metric.ADDED_FIRST_BYTE: 0.0})
    results.add("lemonpod", {Metric.CPU_PER_REQUEST: 50.0, Metric.FAILED_STREAMS: 3})
    said = text(results)
    assert "llama-swap is missing: no Go toolchain here" in said
    assert "failed: nginx: broke off" in said
    assert "lemonpod: failed_streams 3" in said
    assert all(limit.text in said for limit in LIMITS)
    assert len(document(results, {})["limits"]) == len(LIMITS)
    assert [set(panel.values) for panel in panels(results)] == [{"lemonpod"}, set(), set(), set()]


@pytest.mark.parametrize("most", [2.0, 5000.0])
def test_plot_is_well_formed_and_no_bar_leaves_it(most: float) -> None:
    values = {"a<b&c": Spread(1.0, 0.5, 2.0), "lemonpod": Spread(most, most, most)}
    document = ET.fromstring(plot("T & t", [Panel("CPU <x>", "µs", values), Panel("none", "MB", {})]))
    rects = list(document.iter("{http://www.w3.org/2000/svg}rect"))
    widths = [float(rect.get("width", "0")) for rect in rects]
    assert len(widths) == 2
    assert 0 < widths[0] < widths[1] <= 720


@pytest.mark.parametrize(
    ("value", "said"), [(1234.5, "1,234"), (12.34, "12.3"), (0.049, "0.05"), (-0.001, "0.00")]
)
def test_numbers_have_the_digits_that_count(value: float, said: str) -> None:
    assert number(value) == said


def test_a_program_that_is_not_here_is_named_with_its_package() -> None:
    with pytest.raises(MissingError, match="no lemonpod-no-such here: apt-get install a-package"):
        on_path("lemonpod-no-such", "a-package")
