from __future__ import annotations

import os
from pathlib import Path

import pytest

from lemonpod.inventory.programs import InstalledPrograms


def program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(mode)
    return path


@pytest.fixture
def programs(tmp_path: Path) -> InstalledPrograms:
    return InstalledPrograms({"PATH": f".::{tmp_path / 'one'}:{tmp_path / 'two'}"}, str(tmp_path / "own"))


def test_the_first_folder_of_the_path_that_has_it(
    programs: InstalledPrograms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "here" / "x")
    monkeypatch.chdir(tmp_path / "here")  # no part of the PATH, whatever it says
    assert programs.on_path("x") is None
    own = program(tmp_path / "own" / "x")
    assert programs.on_path("x") == own
    program(tmp_path / "one" / "x", 0o644)
    second = program(tmp_path / "two" / "x")
    assert programs.on_path("x") == second
    assert programs.on_path("../two/x") is None
    assert programs.on_path(str(second)) is None


def test_a_program_of_an_artifact_lies_at_its_top_or_anywhere_below(
    programs: InstalledPrograms, tmp_path: Path
) -> None:
    folder = tmp_path / "fork"
    assert programs.below(folder, "x") is None
    program(folder / "a" / "x", 0o644)
    deep = program(folder / "a" / "b" / "c" / "x")
    assert programs.below(folder, "x") == deep
    near = program(folder / "z" / "x")
    assert programs.below(folder, "x") == near
    top = program(folder / "x")
    assert programs.below(folder, "x") == top


def test_only_a_file_that_may_be_run_is_a_program(programs: InstalledPrograms, tmp_path: Path) -> None:
    assert programs.usable(program(tmp_path / "x"))
    assert not programs.usable(program(tmp_path / "y", 0o644))
    assert not programs.usable(tmp_path)
    assert not programs.usable(tmp_path / "none")
    assert not programs.usable(Path("a\0b"))


def test_the_libraries_of_the_newest_release(programs: InstalledPrograms, tmp_path: Path) -> None:
    assert programs.libraries(tmp_path, "gfx1151") == ()
    for number, name in enumerate(("gfx1151-7.10", "gfx1151-7.9", "gfx1150-8")):
        (tmp_path / name / "lib" / "llvm" / "lib").mkdir(parents=True)
        os.utime(tmp_path / name / "lib", (number, number))
    newest = tmp_path / "gfx1151-7.9" / "lib"
    assert programs.libraries(tmp_path, "gfx1151") == (newest, newest / "llvm" / "lib")
    (newest / "llvm" / "lib").rmdir()
    assert programs.libraries(tmp_path, "gfx1151") == (newest,)
