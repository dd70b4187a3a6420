"""What benches make of what they measured: percentiles, spreads, limits, tables, the plot."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.bench.__main__ import BENCHES, or_why_not
from tests.bench.figures import Figure, Limit, Spread, difference, number, percentile
from tests.bench.install import MissingError, on_path
from tests.bench.plot import Panel, plot
from tests.bench.program import Run, write
from tests.bench.report import Report, Table, document, panel, text

RUN = Run(cache=Path("nowhere"), tell=print)


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 50), (99, 99), (100, 100)])
def test_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile(reversed(range(1, 101)), percent) == value


def test_percentile_of_nothing_is_unknown() -> None:
    assert percentile([], 50) is None


def test_a_spread_passes_over_rounds_that_gave_nothing() -> None:
    assert Spread.of([3, None, 1, 8]) == Spread(3, 1, 8)
    assert Spread.of([None]) is None


def test_a_figure_pairs_what_was_measured_in_the_same_round() -> None:
    figure = Figure(what="cost", unit="µs", ours=[2, 30, None, 8], against="nginx", theirs=[1, 10, 5, 2])
    assert figure.judged == Spread(3, 2, 4)
    apart = Figure(what="gap", unit="ms", ours=[2, 30], against="nginx", theirs=[1, 10], how=difference)
    assert apart.judged == Spread(10.5, 1, 20)


@pytest.mark.parametrize(
    ("limit", "theirs", "met"),
    [
        (Limit(1, 4), [1.0, 1.0, 1.0], True),
        (Limit(1, 2), [1.0, 1.0, 1.0], False),
        (Limit(3, 2, at_least=True), [1.0, 1.0, 1.0], True),
        (Limit(1, 4), [None, None, None], None),
        (Limit(1, 4), [], None),
        (None, [1.0, 1.0, 1.0], None),
    ],
)
def test_a_limit_is_held_against_the_median_of_pairs(
    limit: Limit | None, theirs: list[float | None], met: bool | None
) -> None:
    ours = [3.0, 3.0, 9.0]
    assert Figure(what="cost", unit="µs", ours=ours, against="x", theirs=theirs, limit=limit).met is met


def test_a_figure_that_stands_alone_is_held_against_its_limit() -> None:
    assert Figure(what="idle", unit="MB", ours=[64.0], limit=Limit(3, 70)).met is True


def test_what_is_read_tells_of_every_figure_and_of_what_is_missing() -> None:
    said = text(
        [
            Report(name="one", table=Table(["", "us"], [["memory", "63"]])),
            Report(
                name="two",
                figures=[
                    Figure(what="cost", unit="µs", ours=[6.0, 8.0], against="it", theirs=[2.0, 2.0]),
                    Figure(what="idle", unit="MB", ours=[90.0], limit=Limit(3, 70)),
                    Figure(what="more", unit="MB", ours=[], limit=Limit(3, 70)),
                ],
                missing={"llama-swap": "no Go toolchain here"},
                failures=["nginx: broke off"],
            ),
        ]
    )
    memory, cost, idle, more = (
        next(set(re.split(r"\s{2,}", line)) for line in said.splitlines() if line.startswith(word))
        for word in ("memory", "cost", "idle", "more")
    )
    assert "63" in memory
    assert {"cost, µs", "7.00 (6.00 to 8.00)", "it", "2.00", "× 3.50 (3.00 to 4.00)"} <= cost
    assert {"idle, MB", "90.0", "3: ≤ 70", "NOT MET"} <= idle
    assert {"more, MB", "-", "not measured"} <= more
    assert "llama-swap is missing: no Go toolchain here" in said
    assert "failed: nginx: broke off" in said


def test_programs_are_told_of_every_round() -> None:
    figure = Figure(what="cost", unit="µs", ours=[6.0, None], against="it", theirs=[2.0, 3.0])
    said = json.loads(
        json.dumps(document([Report(name="one", figures=[figure], data={"x": 1})], {"cores": 2}))
    )
    assert said["about"] == {"cores": 2}
    assert said["one"]["x"] == 1
    (told,) = said["one"]["figures"]
    assert (told["ours"], told["theirs"], told["pairs"]) == ([6.0, None], [2.0, 3.0], "ratio")
    assert told["judged"] == {"median": 3.0, "least": 3.0, "most": 3.0}


@pytest.mark.parametrize("most", [2.0, 5000.0])
def test_plot_is_well_formed_and_no_bar_leaves_it(most: float) -> None:
    values = {"a<b&c": Spread(1.0, 0.5, 2.0), "lemonpod": Spread(most, most, most * 2)}
    panels = [Panel("CPU <x>", "µs", values), panel("none", "MB", {"nobody": None})]
    document = ET.fromstring(plot("T & t", panels))
    rects = list(document.iter("{http://www.w3.org/2000/svg}rect"))
    widths = [float(rect.get("width", "0")) for rect in rects]
    assert len(widths) == 2
    assert 0 < widths[0] < widths[1] <= float(document.get("width", "0")) / 2


@pytest.mark.parametrize(
    ("value", "said"), [(1234.5, "1,234"), (12.34, "12.3"), (0.049, "0.05"), (-0.001, "0.00")]
)
def test_numbers_have_the_digits_that_count(value: float, said: str) -> None:
    assert number(value) == said


def test_results_are_files_with_a_plot_where_there_is_something_to_plot(tmp_path: Path) -> None:
    plain = Report(name="one")
    plotted = Report(name="two", panels=[Panel("cost", "µs", {"lemonpod": Spread(1, 1, 1)})])
    assert [file.name for file in write(tmp_path, "plain", [plain], {})] == ["plain.json", "plain.txt"]
    assert [file.suffix for file in write(tmp_path, "all", [plain, plotted], {})] == [".json", ".txt", ".svg"]


def test_what_this_machine_lacks_is_named_and_the_others_go_on() -> None:
    def lacking(run: Run) -> Report:
        raise MissingError("no wrk here")

    def failing(run: Run) -> Report:
        raise OSError("no space")

    assert or_why_not("relay", lacking, RUN).missing == {"relay": "no wrk here"}
    assert or_why_not("relay", failing, RUN).failures == ["relay: no space"]


def test_every_part_of_the_whole_is_a_program_too() -> None:
    for name, bench in BENCHES.items():
        module = Path("tests", "bench", name)
        assert module.with_suffix(".py").exists() or (module / "__main__.py").exists()
        assert callable(bench)


def test_a_program_that_is_not_here_is_named_with_its_package() -> None:
    with pytest.raises(MissingError, match="no lemonpod-no-such here: apt-get install a-package"):
        on_path("lemonpod-no-such", "a-package")
