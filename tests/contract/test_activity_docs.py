"""The page about activity names what is told, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from lemonpod.gateway.data.activity import Activity, Ending

PAGE = Path(__file__).parents[2] / "docs/reference/activity.md"


def test_every_field_and_ending_is_in_its_table() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    record = Activity(0.0, "POST", "/", None, None, None, Ending.COMPLETE, 0.0)

    assert named[: -len(Ending) - 1] == list(record.as_json())
    assert named[-len(Ending) - 1] == "ending"
    assert set(named[-len(Ending) :]) == set(Ending)
