"""The shape of the code: small modules, each importable by itself, and a CLI that starts light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lemonpod

PACKAGE = Path(lemonpod.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted(Path(__file__).parents[1].rglob("*.py"))
MAX_LINES = 400
HEAVY = {"aiohttp", "jsonschema", "yaml", "psutil", "uvloop", "asyncio", "xllamacpp"}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", [*MODULES, *TESTS], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_module_holds_one_idea(path: Path) -> None:
    """A longer one needs a reason at its top, in a line that begins with `# Long because`."""
    text = path.read_text(encoding="utf-8")

    assert len(text.splitlines()) <= MAX_LINES or "\n# Long because" in text


IMPORT_ALL = """
import builtins, importlib, sys

root, *names = sys.argv[1:]
real = builtins.__import__

def watched(name, globals=None, locals=None, fromlist=(), level=0):
    assert not level or not globals["__name__"].startswith(root), "a relative import"
    importer = globals["__name__"] if globals else ""
    parts = name.split(".")
    targets = [".".join(parts[:count + 1]) for count in range(len(parts))]
    for target in [*targets, *(f"{name}.{one}" for one in fromlist or ())]:
        spec = getattr(sys.modules.get(target), "__spec__", None)
        is_of_importer = f"{importer}.".startswith(f"{target}.")
        if parts[0] == root and getattr(spec, "_initializing", False) and not is_of_importer:
            sys.exit(f"{importer} imports {target}, which is on its way to import {importer}")
    return real(name, globals, locals, fromlist, level)

builtins.__import__ = watched
for name in names:
    importlib.import_module(name)
"""
"""A walk over all imports comes back to a module that it has not left yet exactly where there is a cycle."""


def import_all(root: str, names: list[str], folder: Path) -> str:
    """Nothing, or what is said of the first cycle, or of a module that cannot be imported."""
    command = [sys.executable, "-c", IMPORT_ALL, root, *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def test_every_module_can_be_imported_first() -> None:
    """No import is part of a cycle, not even of one that works as long as its right end comes first."""
    assert import_all("lemonpod", [name_of(path) for path in MODULES], PACKAGE.parent) == ""


@pytest.mark.parametrize(
    "modules",
    [
        {"a": "from p import b", "b": "import p.a"},
        {"a": "import p.b.c", "b/__init__": "import p.a", "b/c": ""},
        {"a": "import p.b", "b": "from p.c import x", "c": "x = 1\nfrom p.a import y"},
    ],
    ids=["of two", "by way of a package", "that works in one order"],
)
def test_a_cycle_is_found_whichever_end_comes_first(tmp_path: Path, modules: dict[str, str]) -> None:
    for name, text in {"__init__": "", **modules}.items():
        path = tmp_path / "p" / f"{name}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    names = ["p." + name.removesuffix("/__init__").replace("/", ".") for name in modules]
    for order in (names, names[::-1]):
        assert "on its way to import" in import_all("p", order, tmp_path)


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from lemonpod.cli.app import run\n"
        "code = run(['--help'])\n"
        "print('modules:', *sorted(sys.modules))\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rpartition("modules:")[2].split())

    assert not loaded & HEAVY


def test_serving_imports_no_installer() -> None:
    """It never downloads an executable: what a server is wired from does not know how."""
    script = (
        "import sys\n"
        "from lemonpod import bootstrap\n"
        "import lemonpod.cli.serve, lemonpod.gateway.app, lemonpod.gateway.runner, lemonpod.engine.pool\n"
        "import lemonpod.drivers.container, lemonpod.drivers.process, lemonpod.inventory.watch\n"
        "print(*sorted(name for name in sys.modules if name.startswith('lemonpod.install')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
