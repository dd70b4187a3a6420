"""The published schema is the locked one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lemonpod.contract.lock import FOLDER, LOCK_NAME, digest, disagreements, main, read, refreshed

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def test_the_schema_of_this_build_is_the_locked_one() -> None:
    schemas, lock = read()
    assert disagreements(schemas, lock) == []


def test_version_1_is_not_released_yet() -> None:
    assert read()[1]["manifest.v1.json"]["released"] is False


def test_indentation_and_the_order_of_keys_are_free() -> None:
    again = json.loads(json.dumps({name: SCHEMA[name] for name in reversed(SCHEMA)}, indent=8))
    assert digest(again) == digest(SCHEMA)


@pytest.mark.parametrize(
    "changed",
    [
        {**SCHEMA, "required": ["a"]},
        {**SCHEMA, "properties": {"a": {"type": "number"}}},
        {**SCHEMA, "properties": {}},
    ],
)
def test_a_change_of_meaning_disagrees_until_the_lock_is_refreshed(changed: object) -> None:
    lock = refreshed({"manifest.v1.json": SCHEMA}, {})
    (line,) = disagreements({"manifest.v1.json": changed}, lock)
    assert "manifest.v1.json" in line
    assert "refresh the lock" in line
    assert disagreements({"manifest.v1.json": changed}, refreshed({"manifest.v1.json": changed}, lock)) == []


def test_a_released_version_cannot_be_locked_anew() -> None:
    lock = {"manifest.v1.json": {"sha256": digest(SCHEMA), "released": True}}
    changed = {"manifest.v1.json": {**SCHEMA, "required": ["a"]}, "manifest.v2.json": SCHEMA}
    lock = refreshed(changed, lock)
    (line,) = disagreements(changed, lock)
    assert "manifest.v1.json is released" in line
    assert lock["manifest.v2.json"]["released"] is False


def test_no_version_is_taken_away_and_none_goes_unlocked() -> None:
    lock = {"manifest.v1.json": {"sha256": digest(SCHEMA), "released": False}}
    gone, unlocked = disagreements({"manifest.v2.json": SCHEMA}, lock)
    assert "manifest.v1.json is locked but gone" in gone
    assert "manifest.v2.json is not locked" in unlocked


def test_the_command_refreshes_what_may_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "manifest.v1.json").write_text(json.dumps(SCHEMA))
    assert main([], tmp_path) == 1
    assert "not locked" in capsys.readouterr().err
    assert main(["--refresh"], tmp_path) == 0
    assert main([], tmp_path) == 0
    released = json.loads((tmp_path / LOCK_NAME).read_text())
    released["manifest.v1.json"]["released"] = True
    (tmp_path / LOCK_NAME).write_text(json.dumps(released))
    (tmp_path / "manifest.v1.json").write_text("{}")
    assert main(["--refresh"], tmp_path) == 1


def test_the_lock_in_the_package_is_written_as_refreshing_writes_it() -> None:
    schemas, lock = read()
    assert (FOLDER / LOCK_NAME).read_text() == json.dumps(refreshed(schemas, lock), indent=2) + "\n"
