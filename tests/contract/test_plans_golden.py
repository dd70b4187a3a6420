"""Manifest + model + host make exactly this plan: one file a case, input and expectation together.

After a meant change: `python -m tests.contract.test_plans_golden` writes the new plans, to be read in the
diff.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.parse import parse_manifest
from lemonpod.contract.vocabulary import Accelerator
from lemonpod.launch.plan import describe
from lemonpod.launch.request import LaunchRequest, LaunchSettings
from lemonpod.launch.resolve import resolve
from lemonpod.models.entry import CheckpointFile
from lemonpod.models.parse import parse_entry
from tests.factories import make_facts

CASES = sorted((Path(__file__).parents[1] / "data" / "plans").glob("*.json"))


def plan_of(case: dict[str, Any]) -> dict[str, Any]:
    manifest = parse_manifest(case["manifest"])
    entry, problems = parse_entry("golden", case["model"], case.get("saved_options", {}))
    assert entry is not None
    assert problems == ()
    files = {
        name: CheckpointFile(
            ref=ref,
            path=Path(case["files"][name]) if case["files"].get(name) else None,
            problem=None if case["files"].get(name) else "not here",
        )
        for name, ref in entry.checkpoints.items()
    }
    host = dict(case["host"])
    host["accelerators"] = tuple(Accelerator(name) for name in host["accelerators"])
    plan = resolve(
        LaunchRequest(
            manifest=manifest,
            entry=entry,
            files=files,
            overrides=case.get("load_request", {}),
            facts=make_facts(**host),
            port=8001,
            settings=LaunchSettings(
                hf_cache=Path("/home/u/.cache/huggingface/hub"),
                cache_dir=Path("/home/u/.cache/lemonade"),
                options=case.get("config", {}),
            ),
            env=case.get("env", {}),
        )
    )
    described: dict[str, Any] = json.loads(json.dumps(describe(plan)))
    return described


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_makes_its_plan(path: Path) -> None:
    case = json.loads(path.read_text())
    assert plan_of(case) == case["plan"]


def test_there_are_cases() -> None:
    assert len(CASES) >= 6


def rewrite() -> None:
    for path in CASES:
        case = json.loads(path.read_text())
        case["plan"] = plan_of(case)
        path.write_text(json.dumps(case, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    rewrite()
