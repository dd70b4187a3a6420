"""`docs/benchmarks.md` names every bench, every peer and every limit's number."""

from __future__ import annotations

from pathlib import Path

from tests.bench.__main__ import BENCHES
from tests.bench.relay.metrics import DIRECT, figures
from tests.bench.relay.peers import KINDS

PAGE = Path(__file__).parents[2].joinpath("docs", "benchmarks.md").read_text(encoding="utf-8")


def test_all_that_is_measured_has_its_line() -> None:
    theirs = [name for name in KINDS if name != "lemonpod"]
    for name in [*BENCHES, DIRECT, *theirs]:
        assert f"| `{name}` |" in PAGE


def test_the_number_beside_a_limit_is_explained() -> None:
    goals = {figure.limit.goal for figure in figures({}) if figure.limit}
    assert goals
    assert all(f"\n| {goal} | " in PAGE for goal in goals)
