"""The names that CDI specs declare."""

from __future__ import annotations

import json
import os
from pathlib import Path

from lemonpod.host.cdi import cdi_devices
from tests.users import bound_by_modes, open_folder

NVIDIA = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0"}, {"name": "all"}]}


def test_specs_of_both_folders_and_forms_are_read(tmp_path: Path) -> None:
    (tmp_path / "etc/cdi").mkdir(parents=True)
    (tmp_path / "var/run/cdi").mkdir(parents=True)
    (tmp_path / "etc/cdi/nvidia.json").write_text(json.dumps(NVIDIA))
    (tmp_path / "var/run/cdi/amd.yaml").write_text("kind: amd.com/gpu\ndevices:\n- name: '0'\n")
    (tmp_path / "etc/cdi/notes.txt").write_text("kind: x/y")

    found = cdi_devices(tmp_path)
    assert found.names == {"nvidia.com/gpu=0", "nvidia.com/gpu=all", "amd.com/gpu=0"}
    assert found.unreadable == ()


def test_without_folders_there_are_none(tmp_path: Path) -> None:
    assert cdi_devices(tmp_path).names == frozenset()


def test_what_cannot_be_read_is_named_and_hides_no_other() -> None:
    with open_folder() as root:
        folder = root / "etc/cdi"
        folder.mkdir(parents=True)
        for name, text in {
            "a.json": "{",
            "b.yaml": "- x",
            "c.yaml": "kind: 1",
            "d.yaml": "kind: a/b\ndevices: 7",
            "e.yaml": "!!python/object:os.system x",
        }.items():
            (folder / name).write_text(text)
        (folder / "f.json").write_text(json.dumps(NVIDIA))
        (folder / "g.json").touch()
        (folder / "g.json").chmod(0o600 if os.geteuid() == 0 else 0)
        with bound_by_modes():
            found = cdi_devices(root)

    assert found.names == {"nvidia.com/gpu=0", "nvidia.com/gpu=all"}
    assert list(found.unreadable) == [
        *(
            f"/etc/cdi/{name}: it is no CDI spec"
            for name in ("a.json", *(f"{letter}.yaml" for letter in "bcde"))
        ),
        "/etc/cdi/g.json: Permission denied",
    ]
