"""The page on containers: its manifest is one, and finds every model that can be registered."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lemonpod.contract.parse import parse_manifest
from lemonpod.drivers import labels
from lemonpod.launch.plan import ContainerLaunch
from lemonpod.launch.resolve import resolve
from tests.unit.launch.requests import checkpoint, make_request

PAGE = (Path(__file__).parents[2] / "docs" / "containers.md").read_text("utf-8")


@pytest.mark.parametrize("model", ["/hub/models--org--repo/snapshots/abc/m.gguf", "/mine/m.gguf"])
def test_its_manifest_runs_over_the_api_with_the_model_mounted(model: str) -> None:
    (text,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    request = make_request(parse_manifest(json.loads(text)), files={"main": checkpoint(path=Path(model))})

    plan = resolve(request)

    assert isinstance(plan.spec, ContainerLaunch)
    named = [Path(word) for word in plan.spec.container.command if word.endswith("/m.gguf")]
    mounted = {volume.target: volume.source for volume in plan.spec.container.volumes}
    assert named == [Path(model)]
    assert any(named[0].is_relative_to(target) and target == source for target, source in mounted.items())
    assert plan.notes == ()


def test_every_label_is_named() -> None:
    names = {value for name, value in vars(labels).items() if name.isupper()}
    assert names == set(re.findall(r"`(lemonpod\.[a-z]+)`", PAGE))
