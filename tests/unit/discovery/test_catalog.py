"""Which manifests count, which are refused, and that neither is ever silent."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from lemonpod.contract.vocabulary import BUILTIN_RECIPES
from lemonpod.discovery.catalog import Catalog, Changes, Scope, changes, scan
from lemonpod.discovery.paths import DiscoveryPaths
from tests.unit.discovery.conftest import EUID, Machine

as_root = pytest.mark.skipif(EUID != 0, reason="only root owns system files")


def test_no_directory_is_no_manifest_and_no_error(tmp_path: Path) -> None:
    gone = (tmp_path / "gone",)
    paths = DiscoveryPaths(user_config=gone, user_cache=gone, system=gone, shipped=gone)
    catalog = scan(paths, None, builtin=BUILTIN_RECIPES, euid=EUID)
    assert catalog == Catalog(descriptors={}, rejected=())


def test_json_and_yaml_are_found_and_nothing_else(machine: Machine) -> None:
    one = machine.write(machine.config / "one.json", recipe="one")
    machine.write(machine.config / "two.yaml", recipe="two")
    machine.write(machine.config / "three.yml", recipe="three")
    machine.write(machine.config / "four.JSON", recipe="four")
    for name in (".hidden.json", "#x.json#", ".#x.json", "x.json~", "x.json.swp", "~x.json", "README.md"):
        machine.write(machine.config / name, "not a manifest")
    catalog = machine.scan()
    assert list(catalog.descriptors) == ["four", "one", "three", "two"]
    assert catalog.rejected == ()
    source = catalog.descriptors["one"].source
    assert (source.path, source.scope) == (one, Scope.USER_CONFIG)
    assert source.sha256 == hashlib.sha256(one.read_bytes()).hexdigest()


@as_root
def test_a_higher_directory_shadows_a_lower_one(machine: Machine) -> None:
    directories = [machine.config, machine.cache, machine.system, machine.shipped]
    files = [machine.write(directory / "x.json", display_name=str(directory)) for directory in directories]
    for index, file in enumerate(files):
        machine.scan()
        assert machine.recipes == {"test-engine": file}
        for shadowed in files[index + 1 :]:
            assert machine.reasons(shadowed) == [
                "recipe 'test-engine' already provided by a higher-priority path"
            ]
            assert machine.rejected(shadowed).problems[0].hint == f"by {file}"
        file.unlink()


def test_only_a_sound_shipped_manifest_counts_as_replaced(machine: Machine) -> None:
    """It is shown, and nothing of it has to be mended; of the others one is the user's to remove."""
    machine.write(machine.config / "x.json")
    lower, shipped = machine.write(machine.cache / "x.json"), machine.write(machine.shipped / "x.json")
    broken = machine.write(machine.shipped / "y.json", capabilities=[])
    machine.scan()
    replaced = [machine.rejected(path).replaced for path in (lower, shipped, broken)]
    assert replaced == [False, True, False]


def test_of_two_files_in_a_directory_the_first_by_name_counts(machine: Machine) -> None:
    second = machine.write(machine.config / "b.json")
    first = machine.write(machine.config / "a.yaml")
    machine.scan()
    assert machine.recipes == {"test-engine": first}
    assert "already provided" in machine.reasons(second)[0]


@pytest.mark.parametrize("recipe", sorted(BUILTIN_RECIPES))
def test_a_built_in_name_is_refused_and_not_shadowed(machine: Machine, recipe: str) -> None:
    file = machine.write(machine.config / "x.json", recipe=recipe)
    machine.scan()
    assert machine.recipes == {}
    assert machine.reasons(file) == [f"recipe '{recipe}' collides with a built-in backend"]
    assert machine.rejected(file).recipe == recipe


def test_every_bad_file_is_told_and_none_stops_the_scan(machine: Machine) -> None:  # F03
    good = machine.write(machine.config / "good.json")
    bad = {
        "empty.json": b"",
        "bom.json": b"\xef\xbb\xbf{}",
        "utf16.json": b"\xff\xfe{\0",
        "deep.json": b"[" * 100_000,
        "digits.json": b'{"a": ' + b"1" * 5000 + b"}",
        "surrogate.json": b'{"a": "\\ud800"}',
        "huge.json": b" " * (2 << 20),
        "nan.yaml": b"a: .nan",
        "list.json": b"[1, 2]",
        "wrong.json": b'{"recipe": "wrong", "colour": 1}',
    }
    for name, content in bad.items():
        machine.write(machine.config / name, content)
    os.mkfifo(machine.config / "fifo.json")
    (machine.config / "folder.json").mkdir()
    (machine.config / "link.json").symlink_to(good)
    catalog = machine.scan()
    assert machine.recipes == {"test-engine": good}
    names = {*bad, "fifo.json", "folder.json", "link.json"}
    assert {rejected.path.name for rejected in catalog.rejected} == names
    assert all(rejected.problems and not rejected.kept for rejected in catalog.rejected)
    assert machine.rejected(machine.config / "wrong.json").recipe == "wrong"
    assert machine.reasons(machine.config / "fifo.json") == ["not a regular file"]


def test_an_unchanged_file_is_not_opened_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write(machine.config / "x.json")
    machine.write(machine.config / "broken.json", "{")
    first = machine.scan()

    def opened(*arguments: object) -> int:
        raise AssertionError(f"opened {arguments}")

    monkeypatch.setattr(os, "open", opened)
    second = machine.scan()
    assert second == first
    assert second.descriptors is first.descriptors


def test_a_scan_of_many_unchanged_files_costs_their_stat_and_no_more(machine: Machine) -> None:
    for number in range(1500):
        machine.write(machine.config / f"x{number}.json", recipe=f"r{number}")
    first = machine.scan()
    started = time.perf_counter()
    second = machine.scan()
    assert time.perf_counter() - started < 1  # reading them takes longer
    assert second.descriptors is first.descriptors
    assert len(second.descriptors) == 1500


def test_only_what_changed_changes(machine: Machine) -> None:
    machine.write(machine.config / "kept.json", recipe="kept")
    edited = machine.write(machine.config / "edited.json", recipe="edited")
    gone = machine.write(machine.config / "gone.json", recipe="gone")
    before = machine.scan()
    machine.write(edited, recipe="edited", display_name="Edited")
    gone.unlink()
    machine.write(machine.config / "new.json", recipe="new")
    after = machine.scan()
    assert machine.changes == Changes(added=("new",), changed=("edited",), removed=("gone",))
    assert after.descriptors["kept"].manifest is before.descriptors["kept"].manifest
    assert after.descriptors["edited"].manifest.display_name == "Edited"


def test_reformatting_and_touching_change_nothing(machine: Machine) -> None:
    file = machine.write(machine.config / "x.json")
    before = machine.scan()
    file.touch()
    machine.scan()
    file.write_text(file.read_text() + "\n\n")
    after = machine.scan()
    assert not machine.changes
    assert after.descriptors["test-engine"].manifest is before.descriptors["test-engine"].manifest
    assert after.descriptors["test-engine"].source.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


class TestF07:
    """The ways in which files are saved."""

    @pytest.fixture
    def file(self, machine: Machine) -> Path:
        file = machine.write(machine.config / "x.json", display_name="Before")
        machine.scan()
        return file

    def name(self, machine: Machine) -> str:
        return machine.scan().descriptors["test-engine"].manifest.display_name

    def test_written_in_place_by_halves(self, machine: Machine, file: Path) -> None:
        whole = machine.write(machine.root / "whole.json", display_name="After").read_bytes()
        for half in (b"", whole[:20], whole[:-1]):
            machine.write(file, half)
            assert self.name(machine) == "Before"
            assert not machine.changes
            assert machine.rejected(file).kept
            assert "invalid JSON" in machine.reasons(file)[0]
        machine.write(file, whole)
        assert self.name(machine) == "After"
        assert machine.catalog is not None
        assert machine.catalog.rejected == ()

    def test_renamed_over_with_the_same_size_and_time(self, machine: Machine, file: Path) -> None:
        new = machine.write(machine.root / "new.json", display_name="After!")
        old = file.stat()
        assert new.stat().st_size == old.st_size
        os.utime(new, ns=(old.st_atime_ns, old.st_mtime_ns))
        new.rename(file)
        assert self.name(machine) == "After!"

    def test_written_in_place_with_the_same_size_and_time(self, machine: Machine, file: Path) -> None:
        old = file.stat()
        machine.write(file, display_name="After!")
        os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
        assert self.name(machine) == "After!"

    def test_removed_and_made_again_between_two_scans(self, machine: Machine, file: Path) -> None:
        file.unlink()
        machine.write(file, display_name="After")
        assert self.name(machine) == "After"

    def test_a_write_in_the_instant_of_the_reading_is_seen_by_the_next_scan(self, tmp_path: Path) -> None:
        # Two writes in one tick of the file system's clock have the same times and, here, the same size.
        machine = Machine(tmp_path / "other")
        file = machine.write(machine.config / "x.json", display_name="Before")
        status = file.stat()
        clock = lambda: status.st_ctime_ns  # noqa: E731
        first = scan(machine.paths, None, builtin=frozenset(), euid=EUID, clock=clock)
        assert first.descriptors["test-engine"].manifest.display_name == "Before"
        again = scan(machine.paths, first, builtin=frozenset(), euid=EUID, clock=clock)
        assert not changes(first, again)
        assert again.descriptors["test-engine"].manifest is first.descriptors["test-engine"].manifest
        machine.write(file, display_name="After!")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        second = scan(machine.paths, again, builtin=frozenset(), euid=EUID, clock=clock)
        assert second.descriptors["test-engine"].manifest.display_name == "After!"

    def test_swapped_through_a_link_as_mounted_config_maps_are(self, machine: Machine, file: Path) -> None:
        data = machine.config / "..data"
        data.symlink_to(machine.root)
        file.unlink()
        file.symlink_to("..data/whole.json")
        machine.scan()
        assert machine.recipes == {}
        assert machine.reasons(file) == ["symlinked descriptor files are not permitted"]

    def test_a_refused_edit_keeps_the_last_good_version_and_says_so(
        self, machine: Machine, file: Path
    ) -> None:
        machine.write(file, recipe="another", colour="red")
        assert self.name(machine) == "Before"
        rejected = machine.rejected(file)
        assert rejected.kept
        assert rejected.recipe == "another"
        assert machine.reasons(file) == ["unknown field 'colour' in manifest"]

    def test_a_file_that_loses_its_trust_is_dropped_and_comes_back_with_it(
        self, machine: Machine, file: Path
    ) -> None:
        file.chmod(0o666)
        machine.scan()
        assert machine.recipes == {}
        assert not machine.rejected(file).kept
        machine.write(file, "{")
        machine.scan()
        assert machine.recipes == {}
        machine.write(file)
        machine.scan()
        assert machine.recipes == {"test-engine": file}

    def test_a_directory_that_loses_its_trust_takes_its_files_along(
        self, machine: Machine, file: Path
    ) -> None:
        machine.config.chmod(0o777)
        machine.scan()
        assert machine.recipes == {}
        assert machine.reasons(file) == [
            f"ancestor directory '{machine.config}' is group/world writable without the sticky bit"
        ]
        machine.config.chmod(0o755)
        machine.scan()
        assert machine.recipes == {"test-engine": file}

    def test_everything_wrong_with_a_files_place_and_content_is_told_at_once(
        self, machine: Machine, file: Path
    ) -> None:
        machine.config.chmod(0o775)
        file.chmod(0o664)
        machine.scan()
        hints = [problem.hint for problem in machine.rejected(file).problems]
        assert hints == [f"chmod go-w {machine.config}", f"chmod go-w {file}"]


def test_a_broken_file_of_higher_priority_lets_the_lower_one_in_only_on_the_first_scan(
    machine: Machine,
) -> None:
    lower = machine.write(machine.cache / "x.json")
    higher = machine.write(machine.config / "x.json", "{")
    machine.scan()
    assert machine.recipes == {"test-engine": lower}
    assert not machine.rejected(higher).kept
    machine.write(higher)
    machine.scan()
    assert machine.recipes == {"test-engine": higher}
    machine.write(higher, "{")
    machine.scan()
    assert machine.recipes == {"test-engine": higher}
    assert machine.rejected(higher).kept
    assert "already provided" in machine.reasons(lower)[0]
    higher.unlink()
    machine.scan()
    assert machine.recipes == {"test-engine": lower}


def test_a_directory_that_cannot_be_read_is_told_and_keeps_its_files(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = machine.write(machine.config / "x.json")
    machine.scan()
    listdir = os.listdir

    def failing(path: Path) -> list[str]:
        if path == machine.config:
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", failing)  # root reads every directory
    os.utime(machine.config)  # a change of its mode shows in its times too
    machine.scan()
    assert machine.recipes == {"test-engine": file}
    assert machine.reasons(machine.config) == ["cannot read directory: Permission denied"]
    monkeypatch.undo()
    machine.scan()
    assert machine.catalog is not None
    assert machine.catalog.rejected == ()


def test_a_file_in_the_place_of_a_directory_is_told(machine: Machine) -> None:
    machine.config.rmdir()
    machine.config.write_text("")
    machine.scan()
    assert machine.reasons(machine.config) == ["cannot read directory: Not a directory"]


def test_a_file_that_goes_while_it_is_looked_at_is_no_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write(machine.config / "x.json")
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*listdir(path), "gone.json"])
    catalog = machine.scan()
    assert list(machine.recipes) == ["test-engine"]
    assert catalog.rejected == ()


def test_one_directory_under_two_names_is_scanned_once(machine: Machine) -> None:
    file = machine.write(machine.config / "x.json")
    machine.cache.rmdir()
    machine.cache.symlink_to(machine.config)
    catalog = machine.scan()
    assert machine.recipes == {"test-engine": file}
    assert catalog.rejected == ()


class TestExtends:
    def test_across_directories_and_again_when_the_base_changes(self, machine: Machine) -> None:
        base = machine.write(machine.cache / "base.json", recipe="base", recipe_options={"a": 1})
        machine.write(machine.config / "child.json", recipe="child", extends="base")
        assert dict(machine.scan().descriptors["child"].manifest.recipe_options) == {"a": 1}
        machine.write(base, recipe="base", recipe_options={"a": 2})
        assert dict(machine.scan().descriptors["child"].manifest.recipe_options) == {"a": 2}
        assert machine.changes == Changes(added=(), changed=("base", "child"), removed=())
        machine.write(base, recipe="base", recipe_options={"a": 2}, display_name="Renamed")
        before = machine.catalog
        after = machine.scan()
        assert before is not None
        assert machine.changes == Changes(added=(), changed=("base",), removed=())
        assert after.descriptors["child"].manifest is before.descriptors["child"].manifest

    def test_without_its_base_a_child_is_dropped_with_the_reason(self, machine: Machine) -> None:  # F11
        base = machine.write(machine.config / "base.json", "{}")
        child = machine.write(machine.config / "child.json", recipe="child", extends="base")
        machine.scan()
        assert machine.recipes == {}
        assert machine.reasons(child)[0].startswith("cannot resolve extends 'base'")
        machine.write(base, recipe="base")
        machine.scan()
        assert set(machine.recipes) == {"base", "child"}
        base.unlink()
        machine.scan()
        assert machine.recipes == {}

    def test_a_broken_base_still_gives_what_it_last_said(self, machine: Machine) -> None:
        base = machine.write(machine.config / "base.json", recipe="base", recipe_options={"a": 1})
        machine.write(machine.config / "child.json", recipe="child", extends="base")
        machine.scan()
        machine.write(base, "{")
        assert dict(machine.scan().descriptors["child"].manifest.recipe_options) == {"a": 1}

    def test_a_dropped_child_still_shadows_what_is_below_it(self, machine: Machine) -> None:
        higher = machine.write(machine.config / "x.json", extends="gone")
        lower = machine.write(machine.cache / "x.json")
        machine.scan()
        assert machine.recipes == {}
        assert machine.reasons(higher)[0].startswith("cannot resolve extends 'gone'")
        assert "already provided" in machine.reasons(lower)[0]


def test_changes_of_a_first_catalog_are_all_additions(machine: Machine) -> None:
    machine.write(machine.config / "x.json")
    machine.scan()
    assert machine.changes == Changes(added=("test-engine",), changed=(), removed=())
